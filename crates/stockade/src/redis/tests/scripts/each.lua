-- Appends to lists, or refuses the call. KEYS: the list of each call. ARGV: a word for all, then the word of each call.
local replies = {}
for call = 1, #KEYS do
  if ARGV[call + 1] == 'broken' then
    replies[call] = redis.error_reply('BROKEN by itself')
  else
    replies[call] = redis.call('RPUSH', KEYS[call], ARGV[1] .. ARGV[call + 1])
  end
end
return #KEYS == 1 and replies[1] or replies
