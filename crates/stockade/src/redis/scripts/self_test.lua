-- Publishes a message to show that a script's messages reach this process.
-- KEYS: none. ARGV: PUBLISH or SPUBLISH, channel, payload.
-- Reply: the number of receivers.
return redis.call(ARGV[1], ARGV[2], ARGV[3])
