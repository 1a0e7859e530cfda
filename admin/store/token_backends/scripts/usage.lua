-- Who holds and who waits: of one token where it is given; else the largest grants, and the sums of each scope and of
-- some buckets.

-- The largest and oldest grants; their members of the order end in the token, after 20 digits.
local function largest_grants(book)
  local grants, tokens = {}, {}
  for position, member in ipairs(redis.call('ZRANGE', book.order_key, 0, request.most - 1)) do
    tokens[position] = string.sub(member, 21)
  end
  for _, text in ipairs(#tokens > 0 and redis.call('HMGET', book.grants_key, unpack(tokens)) or {}) do
    local grant = text and cjson.decode(text)
    if grant then -- it is not taken back before its holder could have renewed it by a steady clock
      local lacking = math.max(0, grant.lease - state.steady)
      grant.expires = now + lacking > grant.expires + JUMP and lacking > 0 and now + lacking or grant.expires
    end
    grants[#grants + 1] = grant or nil
  end
  return grants
end

local function sums_of(book)
  local sums, kept = {}, redis.call('HGETALL', book.sums_key)
  for position = 1, #kept, 2 do
    local bucket = kept[position]
    if not string.find(bucket, '#', 1, true) then
      local number = tonumber(redis.call('HGET', book.sums_key, COUNT .. bucket) or 0)
      sums[bucket] = { tonumber(kept[position + 1]), number }
    end
  end
  for _, bucket in ipairs(request.buckets) do
    local number = tonumber(redis.call('HGET', book.sums_key, COUNT .. bucket) or 0)
    if number > 0 then
      sums[bucket] = { book.used[bucket], number }
    end
  end
  return sums
end

function operations.usage()
  local usage = {}
  for _, pool in ipairs(request.pools) do
    local book = books[pool]
    if request.token then
      usage[pool] = { grants = { book.grants[request.token] or nil }, waiters = { book.waiters[request.token] or nil } }
    else
      usage[pool] = { grants = largest_grants(book), waiters = all_waiters(book), sums = sums_of(book) }
    end
  end
  return answer({ status = 'usage', usage = usage })
end
