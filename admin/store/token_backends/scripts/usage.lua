-- Who holds and who waits.

local found = {}
for _, pool in ipairs(request.pools) do
  local grants, waiters = {}, {}
  for _, grant in pairs(books[pool].grants) do
    grants[#grants + 1] = grant
  end
  for _, waiter in pairs(books[pool].waiters) do
    waiters[#waiters + 1] = waiter
  end
  found[pool] = { grants = grants, waiters = waiters }
end
return answer({ status = 'usage', usage = found })
