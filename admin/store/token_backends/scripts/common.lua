-- What the scripts share: the state of some pools at one time. The rules are those of admin/core/token_pools.
-- KEYS: the state of all pools; then for each pool its grants and its waiters, each by token.
-- ARGV: the operation as JSON. Numbers of grants and shares have more digits than JSON keeps here, so they are texts.

local request = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local JUMP = 1000
local WHOLE_POOL = '///'
local reclaimed = {}

local state = {}
do
  local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  local known = redis.call('HMGET', KEYS[1], 'epoch', 'run_id', 'grants_from', 'steady_since', 'number')
  if not known[1] or known[2] ~= run_id then
    -- What was granted last may be lost, so nothing is granted until every holder has renewed or is too late.
    known[3], known[4] = now + request.grace, now
    redis.call('HSET', KEYS[1], 'epoch', known[1] or now, 'run_id', run_id, 'grants_from', known[3],
      'steady_since', now)
  elseif request.expected and math.abs(now - request.expected) > JUMP then
    known[4] = now
    redis.call('HSET', KEYS[1], 'steady_since', now)
  end
  state.grants_from, state.number = tonumber(known[3]), tonumber(known[5] or 0)
  state.steady = request.expected and now - tonumber(known[4]) or 0
end

local function next_number()
  -- By the time, so that numbers go on when the state is lost.
  state.number = math.max(state.number + 1, tonumber(time[1]) * 1000000 + tonumber(time[2]))
  local number = string.format('%.0f', state.number)
  redis.call('HSET', KEYS[1], 'number', number)
  return number
end

local books = {}

local function count(book, grant, amount)
  for _, bucket in ipairs(grant.buckets) do
    book.used[bucket] = (book.used[bucket] or 0) + amount
  end
end

local function store_grant(book, grant)
  redis.call('HSET', book.grants_key, grant.token, cjson.encode(grant))
end

for position, pool in ipairs(request.pools) do
  local book = { grants_key = KEYS[2 * position], waiters_key = KEYS[2 * position + 1], grants = {}, waiters = {}, used = {} }
  books[pool] = book
  for _, text in ipairs(redis.call('HVALS', book.grants_key)) do
    local grant = cjson.decode(text)
    if grant.expires > now + grant.lease + 5000 then -- stored before the clock went back
      grant.expires = now + grant.lease
      store_grant(book, grant)
    end
    if grant.expires <= now and state.steady >= grant.lease then
      redis.call('HDEL', book.grants_key, grant.token)
      reclaimed[#reclaimed + 1] = { pool, grant }
    else
      book.grants[grant.token] = grant
      count(book, grant, grant.amount)
    end
  end
  for _, text in ipairs(redis.call('HVALS', book.waiters_key)) do
    local waiter = cjson.decode(text)
    if waiter.expires <= now and state.steady >= waiter.wait then
      redis.call('HDEL', book.waiters_key, waiter.token)
    else
      book.waiters[waiter.token] = waiter
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
  value.reclaimed, value.now = reclaimed, now
  return cjson.encode(value)
end
