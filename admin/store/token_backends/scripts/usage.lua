-- Who holds and who waits; of one token where it is given.

local usage = {}
for _, pool in ipairs(request.pools) do
  local grants, waiters = {}, {}
  if request.token then
    grants = { books[pool].grants[request.token] or nil }
  else
    grants = all_grants(books[pool])
  end
  for _, waiter in pairs(books[pool].waiters) do
    if not request.token or waiter.token == request.token then
      waiters[#waiters + 1] = waiter
    end
  end
  usage[pool] = { grants = grants, waiters = waiters }
end
return answer({ status = 'usage', usage = usage })
