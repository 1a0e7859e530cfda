-- Gives tokens back, or leaves the line.

function operations.release()
  local held, missing = held_grants(true)
  local waits = false
  if not next(held) then
    for _, pool in ipairs(request.pools) do
      local waiter = books[pool].waiters[request.token]
      if waiter and is_of_place(waiter) then
        waits = true
        remove_waiter(books[pool], waiter)
      end
    end
    if waits then
      return answer({ status = 'released', grants = {} })
    end
  end
  if #missing > 0 then
    return answer({ status = 'missing', pools = missing })
  end
  if request.number then
    local others, current = other_numbers(held)
    if #others > 0 then
      return answer({ status = 'missing', pools = others, current = current })
    end
  end
  for _, pool in ipairs(request.pools) do
    remove_grant(books[pool], held[pool])
  end
  return answer({ status = 'released', grants = held })
end
