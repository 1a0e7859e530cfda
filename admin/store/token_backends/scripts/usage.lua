-- Who holds and who waits.

local found = {}
for _, pool in ipairs(request.pools) do
  local grants, waiters = all_grants(books[pool]), {}
  for _, waiter in pairs(books[pool].waiters) do
    waiters[#waiters + 1] = waiter
  end
  found[pool] = { grants = grants, waiters = waiters }
end
return answer({ status = 'usage', usage = found })
