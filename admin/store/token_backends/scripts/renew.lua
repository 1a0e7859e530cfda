-- Holds tokens for another lease. While nothing is granted, a grant that was lost is taken over from its holder.

function operations.renew()
  local held, missing = held_grants(true)
  local is_open = now >= state.grants_from
  -- No lease that was told ends later than one that begins now.
  local is_told = request.expires and request.expires > now and request.expires <= now + common.grace + JUMP
  local is_live = request.is_leased or is_told
  if #missing > 0 and not is_open and is_live and not request.capacities then
    return answer({ status = 'capacities' })
  end
  for _, pool in ipairs(missing) do
    local used = books[pool].used[WHOLE_POOL] or 0
    if is_open or not is_live or used + request.amounts[pool] > request.capacities[pool] then
      return answer({ status = 'missing', pools = missing })
    end
  end
  local others, current = other_numbers(held)
  if #others > 0 then
    return answer({ status = 'missing', pools = others, current = current })
  end
  local changed, amounts = {}, {}
  for _, pool in ipairs(request.pools) do
    local grant = held[pool]
    if grant and grant.amount ~= request.amounts[pool] then
      changed[#changed + 1] = pool
      amounts[pool] = grant.amount
    end
  end
  if #changed > 0 then
    return answer({ status = 'missing', pools = changed, amounts = amounts })
  end
  local lost = {}
  for _, pool in ipairs(missing) do
    lost[pool] = true
    held[pool] = {
      token = request.token, number = request.number, amount = request.amounts[pool], place = request.place,
      execution = request.execution, holder = request.holder, buckets = request.buckets, lease = request.lease,
      granted = now,
    }
  end
  for pool, grant in pairs(held) do
    grant.expires = now + grant.lease
    if lost[pool] then
      add_grant(books[pool], grant)
    else
      store_grant(books[pool], grant)
    end
  end
  return answer({ status = 'renewed', grants = held })
end
