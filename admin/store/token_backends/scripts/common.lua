-- What the scripts share: the state of some pools at one time. The rules are those of admin/core/token_pools.
-- KEYS: the state of all pools; then for each pool its grants and its waiters, each by token; the sums of its grants by
-- bucket; when they end; their order; the order of those that wait; how many of them are alike; and when they leave.
-- ARGV: what all operations have in common, and then each of them, as JSON. They are done one after the other at one time.
-- Numbers of grants and shares have more digits than JSON keeps here, so they are texts.

local common = cjson.decode(ARGV[1])
local request = nil -- the operation that is done now
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local JUMP = common.jump
local WHOLE_POOL = '///'
local COUNT = '#' -- before a bucket: how many grants count in it; no bucket begins so
local reclaimed = {}

local state = {}
do
  local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  local known = redis.call('HMGET', KEYS[1], 'epoch', 'run_id', 'grants_from', 'steady_since', 'number')
  if not known[1] or known[2] ~= run_id then
    -- What was granted last may be lost, so nothing is granted until every holder has renewed or is too late.
    known[3], known[4] = now + common.grace, now
    redis.call('HSET', KEYS[1], 'epoch', known[1] or now, 'run_id', run_id, 'grants_from', known[3],
      'steady_since', now)
    state.may_have_jumped = true
  elseif common.in_doubt or not common.expected or now < common.expected - JUMP then
    known[4] = now
    state.may_have_jumped = true
    redis.call('HSET', KEYS[1], 'steady_since', now)
  end
  state.grants_from, state.number = tonumber(known[3]), tonumber(known[5] or 0)
  -- Where the call was expected sooner it was long under way, or the clock went ahead, which the next one tells.
  local is_late = common.expected and now > common.expected + JUMP
  state.steady = is_late and 0 or now - tonumber(known[4])
end

local function next_number()
  -- By the time, so that numbers go on when the state is lost.
  state.number = math.max(state.number + 1, tonumber(time[1]) * 1000000 + tonumber(time[2]))
  local number = string.format('%.0f', state.number)
  redis.call('HSET', KEYS[1], 'number', number)
  return number
end

local books = {}

-- Beside the grants of a pool stand sums of them, so that no operation reads more of them than it is about:
-- how many tokens and grants count in each bucket, when each ends, and the largest and oldest first.
local function count(book, grant, sign)
  for _, bucket in ipairs(grant.buckets) do
    book.used[bucket] = redis.call('HINCRBY', book.sums_key, bucket, sign * grant.amount)
    if redis.call('HINCRBY', book.sums_key, COUNT .. bucket, sign) == 0 then
      redis.call('HDEL', book.sums_key, bucket, COUNT .. bucket)
    end
  end
end

local function order_of(grant)
  return string.format('%020.0f', tonumber(grant.number)) .. grant.token
end

local function store_grant(book, grant)
  redis.call('HSET', book.grants_key, grant.token, cjson.encode(grant))
  redis.call('ZADD', book.ends_key, grant.expires, grant.token)
  rawset(book.grants, grant.token, grant)
end

local function add_grant(book, grant)
  store_grant(book, grant)
  redis.call('ZADD', book.order_key, -grant.amount, order_of(grant))
  count(book, grant, 1)
end

local function remove_grant(book, grant)
  redis.call('HDEL', book.grants_key, grant.token)
  redis.call('ZREM', book.ends_key, grant.token)
  redis.call('ZREM', book.order_key, order_of(grant))
  rawset(book.grants, grant.token, false)
  count(book, grant, -1)
end

local function all_grants(book)
  local grants = {}
  for position, text in ipairs(redis.call('HVALS', book.grants_key)) do
    grants[position] = cjson.decode(text)
  end
  return grants
end

-- Where a key was lost, and where the clock may have jumped: everything anew from the grants themselves.
local function rebuild(book)
  local grants = all_grants(book)
  redis.call('DEL', book.sums_key, book.ends_key, book.order_key)
  for _, grant in ipairs(grants) do
    if grant.expires > now + grant.lease + 5000 then -- stored before the clock went back
      grant.expires = now + grant.lease
    end
    add_grant(book, grant)
  end
end

-- Whether all that is kept beside the grants is of as many as there are, and whether some of it is of more.
local function is_whole(book)
  local number = redis.call('HLEN', book.grants_key)
  local ends, order = redis.call('ZCARD', book.ends_key), redis.call('ZCARD', book.order_key)
  local counted = tonumber(redis.call('HGET', book.sums_key, COUNT .. WHOLE_POOL) or 0)
  return number == ends and number == order and number == counted, number < math.max(ends, order, counted)
end

-- Beside those that wait for one pool alone stands the order of those alike, the oldest first, and of all when they leave
-- the line, so that of a long line few are read.
local function age_of(waiter)
  return string.format('%016.0f%020.0f', waiter.since, tonumber(waiter.number))
end

local function order_in_line(waiter)
  return waiter.queue .. '\0' .. age_of(waiter) .. waiter.token
end

local function count_waiter(book, waiter)
  redis.call('ZADD', book.stays_key, waiter.expires, waiter.token)
  if waiter.queue then
    redis.call('ZADD', book.line_key, 0, order_in_line(waiter))
    redis.call('HINCRBY', book.queues_key, waiter.queue, 1)
  end
end

local function add_waiter(book, waiter)
  redis.call('HSET', book.waiters_key, waiter.token, cjson.encode(waiter))
  rawset(book.waiters, waiter.token, waiter)
  count_waiter(book, waiter)
end

local function remove_waiter(book, waiter)
  redis.call('HDEL', book.waiters_key, waiter.token)
  redis.call('ZREM', book.stays_key, waiter.token)
  rawset(book.waiters, waiter.token, false)
  if waiter.queue and redis.call('ZREM', book.line_key, order_in_line(waiter)) == 1 then
    if redis.call('HINCRBY', book.queues_key, waiter.queue, -1) <= 0 then
      redis.call('HDEL', book.queues_key, waiter.queue)
    end
  end
end

local function all_waiters(book)
  local waiters = {}
  for position, text in ipairs(redis.call('HVALS', book.waiters_key)) do
    waiters[position] = cjson.decode(text)
  end
  return waiters
end

-- Where a key was lost, or an earlier version has written.
local function rebuild_line(book)
  redis.call('DEL', book.line_key, book.queues_key, book.stays_key)
  for _, waiter in ipairs(all_waiters(book)) do
    count_waiter(book, waiter)
  end
end

local function is_line_whole(book)
  local number, in_queues = redis.call('HLEN', book.waiters_key), redis.call('ZCARD', book.line_key)
  local are_counted = (in_queues > 0) == (redis.call('HLEN', book.queues_key) > 0)
  return number == redis.call('ZCARD', book.stays_key) and in_queues <= number and are_counted
end

-- Has a table read what it lacks.
local function read_lacking(values, read)
  setmetatable(values, { __index = function(_, name)
    local value = read(name)
    rawset(values, name, value)
    return value
  end })
end

local function read_one(book)
  local function read_from(key)
    return function(token)
      local text = redis.call('HGET', key, token)
      return text and cjson.decode(text) or false
    end
  end
  read_lacking(book.grants, read_from(book.grants_key))
  read_lacking(book.waiters, read_from(book.waiters_key))
  read_lacking(book.used, function(bucket)
    return tonumber(redis.call('HGET', book.sums_key, bucket) or 0)
  end)
end

for position, pool in ipairs(common.pools) do
  local key = 8 * position - 6
  local book = {
    grants_key = KEYS[key], waiters_key = KEYS[key + 1], sums_key = KEYS[key + 2], ends_key = KEYS[key + 3],
    order_key = KEYS[key + 4], line_key = KEYS[key + 5], queues_key = KEYS[key + 6], stays_key = KEYS[key + 7],
    grants = {}, waiters = {}, used = {},
  }
  books[pool] = book
  read_one(book)
  local whole, has_lost_grants = is_whole(book)
  if has_lost_grants then -- their keys were dropped or deleted: the same as after a flush
    state.grants_from = now + common.grace
    redis.call('HSET', KEYS[1], 'grants_from', state.grants_from)
  end
  if state.may_have_jumped or not whole then
    rebuild(book)
  end
  if not is_line_whole(book) then
    rebuild_line(book)
  end
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', book.ends_key, '-inf', now - JUMP)) do
    local grant = book.grants[token]
    if grant and state.steady >= grant.lease then
      remove_grant(book, grant)
      reclaimed[#reclaimed + 1] = { pool, grant }
    end
  end
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', book.stays_key, '-inf', now)) do
    local waiter = book.waiters[token]
    if waiter and state.steady >= waiter.wait then
      remove_waiter(book, waiter)
    end
  end
end

local function is_of_place(entry)
  local place = request.place
  return not place or (entry.place[1] == place[1] and entry.place[2] == place[2])
end

local function held_grants(of_place)
  local held, missing = {}, {}
  for _, pool in ipairs(request.pools) do
    local grant = books[pool].grants[request.token]
    if grant and (not of_place or is_of_place(grant)) then
      held[pool] = grant
    else
      missing[#missing + 1] = pool
    end
  end
  return held, missing
end

local function other_numbers(held)
  local pools, current = {}, nil
  for _, pool in ipairs(request.pools) do
    if held[pool] and held[pool].number ~= request.number then
      pools[#pools + 1] = pool
      current = current or held[pool].number
    end
  end
  return pools, current
end

local function answer(value)
  value.closed = math.max(0, state.grants_from - now)
  return cjson.encode(value) -- now, since later operations change what it refers to
end

local operations = {} -- by name
