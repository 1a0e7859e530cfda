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

local function is_before(waiter, other, share, other_share)
  if waiter.priority ~= other.priority then
    return waiter.priority > other.priority
  end
  if share ~= other_share then
    return share < other_share
  end
  return waiter.age < other.age
end

-- With its age as a text, of which the smaller is served first.
local function aged(waiter)
  waiter.age = age_of(waiter) .. waiter.token
  return waiter
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

-- The queues of a long line for the one pool that is asked for; nil for one that is to be read whole.
local function line_of_one_pool()
  local book = books[request.pools[1]]
  local number = redis.call('HLEN', book.waiters_key)
  if #request.pools > 1 or number <= request.short_line or number ~= redis.call('ZCARD', book.line_key) then
    return nil
  end
  local line, kept = { number = number, queues = {} }, redis.call('HGETALL', book.queues_key)
  for position = 1, #kept, 2 do
    local own = cjson.decode(kept[position])
    line.queues[#line.queues + 1] = {
      text = kept[position], number = tonumber(kept[position + 1]), priority = own[1], weight = own[2], amount = own[3],
      share_bucket = own[4],
    }
  end
  return line
end

local function share_of_queue(queue, rooms)
  return share_in(queue, rooms[request.pools[1]])
end

-- Finds who is the first of a queue now; of a long line that is read only when it comes up.
local function look_at_first(queue, rooms)
  queue.first = nil
  if queue.waiters then
    queue.first = queue.waiters[#queue.waiters]
  elseif queue.is_begun then
    local book, from, to = books[request.pools[1]], '[' .. queue.text .. '\0', '(' .. queue.text .. '\1'
    local member, waiter
    repeat
      member = redis.call('ZRANGEBYLEX', book.line_key, from, to, 'LIMIT', queue.position, 1)[1]
      waiter = member and book.waiters[string.sub(member, #queue.text + 38)]
      if member and not waiter then -- an earlier version has taken it out
        redis.call('ZREM', book.line_key, member)
      end
    until waiter or not member
    queue.first = waiter and aged(waiter) or nil
  end
  if queue.first then
    queue.priority, queue.age, queue.share = queue.first.priority, queue.first.age, share_of(queue.first, rooms)
  elseif not queue.is_begun and not queue.waiters then
    queue.age, queue.share = '', share_of_queue(queue, rooms)
  end
end

-- Whether a bound blocks all of a queue, which its first shares with them.
local function is_all_blocked(queue, rooms)
  local room, waiter = rooms[request.pools[1]], queue.first
  for bucket, cap in pairs(waiter.caps[request.pools[1]] or {}) do
    if not string.find(bucket, '#', 1, true) and total(room, bucket) + queue.amount > cap then
      return true
    end
  end
  return false
end

local function remove_first(queue, rooms)
  if queue.waiters then
    table.remove(queue.waiters)
  elseif is_all_blocked(queue, rooms) then
    queue.first = nil
    return
  else
    queue.position = queue.position + 1
  end
  look_at_first(queue, rooms)
end

-- Those that wait, in queues of those of which the older one is always served first: their shares change together.
local function queues_of(others, rooms, line)
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
      table.insert(by_name[name].waiters, aged(other))
    end
  end
  for _, queue in ipairs(queues) do
    table.sort(queue.waiters, function(one, other) return other.age < one.age end)
  end
  for _, queue in ipairs(line and line.queues or {}) do
    if queue.amount <= rooms[request.pools[1]].capacity then
      queue.position = 0
      queues[#queues + 1] = queue
    end
  end
  for _, queue in ipairs(queues) do
    look_at_first(queue, rooms)
  end
  return queues
end

local function is_queue_before(queue, other)
  return is_before(queue, other, queue.share, other.share)
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

-- Whether a claim fits even if everybody who waits gets everything, in whatever order they are served.
local function has_room_for_all(waiter, rooms, line)
  local pool = request.pools[1]
  local asked, room = waiter.amounts[pool], rooms[pool]
  for _, queue in ipairs(line.queues) do
    asked = asked + queue.amount * queue.number
  end
  for bucket, cap in pairs(waiter.caps[pool] or {}) do
    if total(room, bucket) + asked > cap then
      return false
    end
  end
  return asked <= free(room)
end

local function serve(waiter, others, rooms, line)
  local _, has = statuses(waiter, rooms)
  if has.blocked or has.short then
    return false
  end
  if line and has_room_for_all(waiter, rooms, line) then
    return true
  end
  local queues = queues_of(others, rooms, line)
  table.sort(queues, is_queue_before)
  while not has.blocked and not has.short and #queues > 0 do
    -- What is taken only raises shares, so that one which is out of date is too small, and its queue comes up too soon.
    local queue = table.remove(queues, 1)
    local first = queue.first
    local share = first and share_of(first, rooms)
    if not first or share ~= queue.share then
      queue.is_begun = true
      look_at_first(queue, rooms)
    elseif is_before(waiter, first, share_of(waiter, rooms), share) then
      break
    else
      if take(first, rooms) then
        _, has = statuses(waiter, rooms)
      end
      remove_first(queue, rooms)
    end
    if queue.first then
      put(queues, queue)
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
    local own = books[pool].waiters[request.token]
    if own then
      remove_waiter(books[pool], own)
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

-- How many of a line stand before a claim.
local function number_ahead(waiter, share, rooms, line)
  local ahead, pool = 0, request.pools[1]
  for _, queue in ipairs(line and line.queues or {}) do
    local share_there = share_of_queue(queue, rooms)
    if queue.priority > waiter.priority or (queue.priority == waiter.priority and share_there < share) then
      ahead = ahead + queue.number
    elseif queue.priority == waiter.priority and share_there == share then
      local from = queue.text .. '\0'
      ahead = ahead + redis.call('ZLEXCOUNT', books[pool].line_key, '[' .. from, '(' .. from .. age_of(waiter))
    end
  end
  return ahead
end

local function wait(waiter, is_waiting, others, served, line)
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
    if is_before(aged(other), waiter, share_of(other, rooms), share) then
      place = place + 1
    end
  end
  place = place + number_ahead(waiter, share, rooms, line)
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
    waiter.age = nil
    for _, pool in ipairs(request.pools) do
      add_waiter(books[pool], waiter)
    end
  end
  return answer({
    status = 'exhausted', full = full, place = place, waiting = #others + (line and line.number or 0),
    retry = soonest and soonest + JUMP - now or 0,
    is_repeated = is_waiting, is_line_full = is_line_full,
  })
end

function operations.allocate()
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
    local own = books[pool].waiters[request.token]
    before = before or (own and same_amounts(own.amounts) and own or nil)
  end
  leave() -- whatever comes of it, it stands nowhere as it did
  local line = line_of_one_pool()
  for _, pool in ipairs(line and {} or request.pools) do
    for _, other in ipairs(all_waiters(books[pool])) do
      if not seen[other.token] then
        seen[other.token] = true
        others[#others + 1] = other
      end
    end
  end
  local waiter = {
    token = request.token, number = before and before.number or string.format('%.0f', state.number + 1),
    amounts = request.amounts, caps = request.caps, standings = {}, place = request.place, buckets = request.buckets,
    share_bucket = request.share_bucket, execution = request.execution, holder = request.holder,
    priority = request.priority, weight = request.weight, since = request.since or before and before.since or now,
    wait = request.wait, expires = now + request.wait, queue = request.queue,
  }
  aged(waiter)
  local rooms = new_rooms()
  if serve(waiter, others, rooms, line) then
    return grant_all(waiter.since)
  end
  return wait(waiter, before ~= nil, others, rooms, line)
end
