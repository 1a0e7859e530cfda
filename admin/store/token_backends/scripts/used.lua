-- How many tokens count in some buckets; and how many claims stand in line, where that is asked.

function operations.used()
  local used, asking = {}, {}
  for _, pool in ipairs(request.pools) do
    used[pool], asking[pool] = {}, 0
    for _, bucket in ipairs(request.buckets) do
      used[pool][bucket] = books[pool].used[bucket]
    end
    for _, waiter in ipairs(request.prefix and all_waiters(books[pool]) or {}) do
      local waits_for_its_lease = string.sub(waiter.token, 1, #request.prefix) == request.prefix
      if not waits_for_its_lease or waiter.priority == request.runs_already then
        asking[pool] = asking[pool] + 1
      end
    end
  end
  return answer({ status = 'used', used = used, asking = asking })
end
