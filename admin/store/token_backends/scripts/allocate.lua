-- Grants a claim, or says what is full.

local MOST_LOOKED_AT = 500

local function room_of(pool)
  return { capacity = request.terms[pool].capacity, used = books[pool].used, taken = {}, reserved = false }
end

local function total(room, bucket)
  return (room.used[bucket] or 0) + (room.taken[bucket] or 0)
end

local function free(room)
  return room.reserved and 0 or room.capacity - total(room, WHOLE_POOL)
end

local function status_in(waiter, pool, room)
  local amount = waiter.amounts[pool]
  if amount > room.capacity then
    return 'blocked'
  end
  for bucket, cap in pairs(waiter.caps[pool] or {}) do
    if total(room, bucket) + amount > cap then
      return 'blocked'
    end
  end
  return amount > free(room) and 'short' or 'fits'
end

local function statuses(waiter, rooms)
  local status, has = {}, {}
  for pool in pairs(waiter.amounts) do
    local standing = waiter.standings[pool]
    status[pool] = rooms[pool] and status_in(waiter, pool, rooms[pool]) or (standing and standing[1] or 'fits')
    has[status[pool]] = true
  end
  return status, has
end

local function share_in(waiter, room)
  return total(room, waiter.share_bucket) / (waiter.weight * math.max(room.capacity, 1))
end

local function share_of(waiter, rooms)
  local largest = 0
  for pool in pairs(waiter.amounts) do
    local standing = waiter.standings[pool]
    largest = math.max(largest, rooms[pool] and share_in(waiter, rooms[pool]) or (standing and tonumber(standing[2]) or 0))
  end
  return largest
end

local function is_older(waiter, other)
  if waiter.since ~= other.since then
    return waiter.since < other.since
  end
  local number, other_number = tonumber(waiter.number), tonumber(other.number)
  if number ~= other_number then
    return number < other_number
  end
  return waiter.token < other.token
end

local function is_before(waiter, other, share, other_share)
  if waiter.priority ~= other.priority then
    return waiter.priority > other.priority
  end
  if share ~= other_share then
    return share < other_share
  end
  return is_older(waiter, other)
end

-- Whether what one takes leaves less to others.
local function take(waiter, rooms)
  local status, has = statuses(waiter, rooms)
  if has.blocked then
    return false
  end
  for pool, amount in pairs(waiter.amounts) do
    local room = rooms[pool]
    if room and has.short then
      room.reserved = room.reserved or status[pool] == 'short'
    elseif room then
      for _, bucket in ipairs(waiter.buckets) do
        room.taken[bucket] = (room.taken[bucket] or 0) + amount
      end
    end
  end
  return true
end

-- Those that wait, in queues of those of which the older one is always served first: their shares change together.
local function queues_of(others, rooms)
  local queues, by_name = {}, {}
  for _, other in ipairs(others) do
    local _, has = statuses(other, rooms)
    if not has.blocked then
      local pools, elsewhere = {}, 0
      for pool in pairs(other.amounts) do
        if rooms[pool] then
          pools[#pools + 1] = pool
        else
          elsewhere = math.max(elsewhere, other.standings[pool] and tonumber(other.standings[pool][2]) or 0)
        end
      end
      table.sort(pools)
      local name = cjson.encode({ other.priority, other.share_bucket, tostring(other.weight), pools, tostring(elsewhere) })
      if not by_name[name] then
        by_name[name] = { waiters = {} }
        queues[#queues + 1] = by_name[name]
      end
      table.insert(by_name[name].waiters, other)
    end
  end
  for _, queue in ipairs(queues) do
    table.sort(queue.waiters, function(one, other) return is_older(other, one) end)
    queue.share = share_of(queue.waiters[#queue.waiters], rooms)
  end
  return queues
end

local function is_queue_before(queue, other)
  return is_before(queue.waiters[#queue.waiters], other.waiters[#other.waiters], queue.share, other.share)
end

-- Puts a queue where it belongs among others that are in order.
local function put(queues, queue)
  local low, high = 1, #queues + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_queue_before(queues[middle], queue) then
      low = middle + 1
    else
      high = middle
    end
  end
  table.insert(queues, low, queue)
end

local function serve(waiter, others, rooms)
  local _, has = statuses(waiter, rooms)
  if has.blocked or has.short then
    return false
  end
  local queues = queues_of(others, rooms)
  table.sort(queues, is_queue_before)
  while not has.blocked and not has.short and #queues > 0 do
    -- What is taken only raises shares, so that one which is out of date is too small, and its queue comes up too soon.
    local queue = table.remove(queues, 1)
    local first = queue.waiters[#queue.waiters]
    local share = share_of(first, rooms)
    if share ~= queue.share then
      queue.share = share
      put(queues, queue)
    elseif is_before(waiter, first, share_of(waiter, rooms), share) then
      break
    else
      table.remove(queue.waiters)
      if take(first, rooms) then
        _, has = statuses(waiter, rooms)
      end
      if #queue.waiters > 0 then
        queue.share = share_of(queue.waiters[#queue.waiters], rooms)
        put(queues, queue)
      end
    end
  end
  return not has.blocked and not has.short
end

local function new_rooms()
  local rooms = {}
  for _, pool in ipairs(request.pools) do
    rooms[pool] = room_of(pool)
  end
  return rooms
end

local function leave()
  for _, pool in ipairs(request.pools) do
    if books[pool].waiters[request.token] then
      redis.call('HDEL', books[pool].waiters_key, request.token)
    end
  end
end

local function same_amounts(amounts)
  for pool, amount in pairs(amounts) do
    if request.amounts[pool] ~= amount then
      return false
    end
  end
  for pool in pairs(request.amounts) do
    if amounts[pool] == nil then
      return false
    end
  end
  return true
end

local function grant_all(since)
  leave()
  local number, grants = next_number(), {}
  for _, pool in ipairs(request.pools) do
    local grant = {
      token = request.token, number = number, amount = request.amounts[pool], place = request.place,
      execution = request.execution, holder = request.holder, buckets = request.buckets, lease = request.lease,
      granted = now, expires = now + request.lease,
    }
    grants[pool] = grant
    add_grant(books[pool], grant)
  end
  return answer({ status = 'granted', grants = grants, since = since })
end

-- The largest and oldest holders in a bucket; of one that few of very many count in, maybe not all of them.
local function holders_of(book, bucket)
  local largest, from = {}, 0
  while #largest < request.most_holders and from < MOST_LOOKED_AT do
    local members = redis.call('ZRANGE', book.order_key, from, from + 99)
    for _, member in ipairs(members) do
      local grant = book.grants[string.sub(member, 21)]
      for _, other in ipairs(grant.buckets) do
        if other == bucket and #largest < request.most_holders then
          largest[#largest + 1] = grant
        end
      end
    end
    if #members < 100 then
      break
    end
    from = from + 100
  end
  return largest, tonumber(redis.call('HGET', book.sums_key, COUNT .. bucket) or 0)
end

local function full_in(pool, served, full)
  local book, amount = books[pool], request.amounts[pool]
  local limits = { { WHOLE_POOL, request.terms[pool].capacity } }
  for _, limit in ipairs(request.terms[pool].limits) do
    limits[#limits + 1] = limit
  end
  local by_use, by_line = {}, {}
  for position, limit in ipairs(limits) do
    local used, promised = book.used[limit[1]] or 0, served.taken[limit[1]] or 0
    if served.reserved and limit[1] == WHOLE_POOL then
      promised = request.terms[pool].capacity - used
    end
    if used + amount > limit[2] then
      by_use[#by_use + 1] = { pool = pool, limit = position - 1, used = used, promised = 0 }
    end
    if used + promised + amount > limit[2] then
      by_line[#by_line + 1] = { pool = pool, limit = position - 1, used = used, promised = promised }
    end
  end
  for _, entry in ipairs(#by_use > 0 and by_use or by_line) do
    entry.holders, entry.holder_count = holders_of(book, limits[entry.limit + 1][1])
    full[#full + 1] = entry
  end
end

local function wait(waiter, is_waiting, others, served)
  local rooms, full, place, soonest = new_rooms(), {}, 1, nil
  for _, pool in ipairs(request.pools) do
    full_in(pool, served[pool], full)
    local first = redis.call('ZRANGE', books[pool].ends_key, 0, 0, 'WITHSCORES')[2]
    if first then
      soonest = math.min(soonest or tonumber(first), tonumber(first))
    end
  end
  local share, is_line_full = share_of(waiter, rooms), false
  for _, other in ipairs(others) do
    if is_before(other, waiter, share_of(other, rooms), share) then
      place = place + 1
    end
  end
  leave()
  for _, pool in ipairs(request.pools) do
    is_line_full = is_line_full or (not is_waiting and redis.call('HLEN', books[pool].waiters_key) >= request.most_waiters)
  end
  if request.wait > 0 and not is_line_full then
    local status = statuses(waiter, rooms)
    for pool, standing in pairs(status) do
      waiter.standings[pool] = { standing, string.format('%.17g', share_in(waiter, rooms[pool])) }
    end
    if not is_waiting then
      waiter.number = next_number()
    end
    for _, pool in ipairs(request.pools) do
      redis.call('HSET', books[pool].waiters_key, waiter.token, cjson.encode(waiter))
    end
  end
  return answer({
    status = 'exhausted', full = full, place = place, waiting = #others, retry = soonest and soonest + JUMP - now or 0,
    is_repeated = is_waiting, is_line_full = is_line_full,
  })
end

local held, missing = held_grants()
if next(held) then
  local amounts, is_own, number = {}, true, nil
  for pool, grant in pairs(held) do
    number = number or grant.number
    amounts[pool], is_own = grant.amount, is_own and is_of_place(grant) and grant.number == number
  end
  return answer({ status = is_own and same_amounts(amounts) and 'held' or 'conflict', grants = held })
end
if request.never then
  leave()
  return answer({ status = 'never' })
end
if now < state.grants_from then
  return answer({ status = 'closed' })
end

local before, others, seen = nil, {}, {}
for _, pool in ipairs(request.pools) do
  for token, other in pairs(books[pool].waiters) do
    if token == request.token then
      before = before or (same_amounts(other.amounts) and other or nil)
    elseif not seen[token] then
      seen[token] = true
      others[#others + 1] = other
    end
  end
end
local waiter = {
  token = request.token, number = before and before.number or string.format('%.0f', state.number + 1),
  amounts = request.amounts, caps = request.caps, standings = {}, place = request.place, buckets = request.buckets,
  share_bucket = request.share_bucket, execution = request.execution, holder = request.holder,
  priority = request.priority, weight = request.weight, since = request.since or before and before.since or now,
  wait = request.wait, expires = now + request.wait,
}
local rooms = new_rooms()
if serve(waiter, others, rooms) then
  return grant_all(waiter.since)
end
return wait(waiter, before ~= nil, others, rooms)
