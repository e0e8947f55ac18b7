-- Publishes a message to show that a script's messages reach this process.
-- KEYS: none. ARGV: channel, payload.
-- Reply: the number of receivers.
return redis.call('PUBLISH', ARGV[1], ARGV[2])
