-- The requests of bench/load.py's Call, which stands before this text as the table `call`, and what wrk measured.

local count = 0
local threads = {}

math.randomseed(call.seed)

local function fill(text)
  count = count + 1
  local drawn = { unique = call.run .. "-" .. count }
  for name, among in pairs(call.draws) do
    if type(among) == "table" then
      drawn[name] = among[math.random(#among)]
    else
      drawn[name] = math.random(among) - 1
    end
  end
  return (text:gsub("<(%l+)>", drawn))
end

function setup(thread)
  table.insert(threads, thread)
end

refused = 0

function request()
  local body
  if call.body ~= "" then
    local bodies = {}
    for number = 1, call.times do
      bodies[number] = fill(call.body)
    end
    body = call.first .. table.concat(bodies, ",") .. call.last
  end
  return wrk.format(call.method, fill(call.path), call.headers, body)
end

if call.refuses_singly then
  function response(_, _, body)
    refused = refused + tonumber(body:match('"failed": ?(%d+)') or 0)
  end
end

-- wrk adds what requests would have seen that it might have sent while it waited for slow answers, as if it had meant to
-- send them at a steady rate. Our clients mean to wait. Whatever an answer of n microseconds has added stands below it,
-- so it is taken away again from the slowest answer down.
local function answers(summary, latency)
  local usual = math.floor(summary.duration / math.max(1, math.floor(summary.requests / call.connections)))
  local counts, times = {}, {}
  for number = 1, #latency do
    local time, count = latency(number)
    counts[time] = count
    times[number] = time
  end
  for number = #times, 1, -1 do
    local earlier = times[number] - usual
    while times[number] >= 2 * usual and earlier > usual do
      counts[earlier] = counts[earlier] - counts[times[number]]
      earlier = earlier - usual
    end
  end
  return times, counts
end

local function percentile(times, counts, share)
  local all, seen = 0, 0
  for _, time in ipairs(times) do
    all = all + counts[time]
  end
  for _, time in ipairs(times) do
    seen = seen + counts[time]
    if seen >= share / 100 * all then
      return time
    end
  end
  return 0
end

function done(summary, latency)
  local errors = summary.errors
  local lost = errors.connect + errors.read + errors.write + errors.timeout
  local refused_singly = 0
  for _, thread in ipairs(threads) do
    refused_singly = refused_singly + thread:get("refused")
  end
  local times, counts = answers(summary, latency)
  print(string.format(
    '{"answers": %d, "microseconds": %d, "p50": %d, "p99": %d, "lost": %d, "refused": %d}',
    summary.requests, summary.duration, percentile(times, counts, 50), percentile(times, counts, 99), lost,
    errors.status * call.times + refused_singly
  ))
end
