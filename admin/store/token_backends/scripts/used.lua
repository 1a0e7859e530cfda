-- How many tokens count in some buckets.

local used = {}
for _, pool in ipairs(request.pools) do
  used[pool] = {}
  for _, bucket in ipairs(request.buckets) do
    used[pool][bucket] = books[pool].used[bucket]
  end
end
return answer({ status = 'used', used = used })
