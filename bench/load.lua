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

local headers = {}
local drawn_headers = {}
for name, value in pairs(call.headers) do
  headers[name] = value
  if value:find("<%l+>") then
    drawn_headers[name] = value
  end
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
  for name, value in pairs(drawn_headers) do
    headers[name] = fill(value)
  end
  return wrk.format(call.method, fill(call.path), headers, body)
end

if call.refuses_singly then
  function response(_, _, body)
    refused = refused + tonumber(body:match('"failed": ?(%d+)') or 0)
  end
end

function done(summary, latency)
  local errors = summary.errors
  local lost = errors.connect + errors.read + errors.write + errors.timeout
  local refused_singly = 0
  for _, thread in ipairs(threads) do
    refused_singly = refused_singly + thread:get("refused")
  end
  local latencies = {}
  for number = 1, #latency do
    local time, count = latency(number)
    latencies[number] = string.format("[%d, %d]", time, count)
  end
  print(string.format(
    '{"answers": %d, "microseconds": %d, "latencies": [%s], "lost": %d, "refused": %d}',
    summary.requests, summary.duration, table.concat(latencies, ", "), lost,
    errors.status * call.times + refused_singly
  ))
end
