-- Does the operations, and returns what holds for the call, and the answer to each.

local answers = {}
for number = 2, #ARGV do
  request = cjson.decode(ARGV[number])
  answers[number] = operations[request.operation]()
end
answers[1] = cjson.encode({ reclaimed = reclaimed, now = now })
return answers
