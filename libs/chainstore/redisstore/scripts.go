package redisstore

import "github.com/redis/go-redis/v9"

// What the writing scripts answer.
const (
	done      = 1
	lost      = 0 // another version, or other bytes, are there
	unlisted  = 2 // the group is not in the directory yet
	pieceGone = 3 // a piece has expired
)

// scripts are what must be one step. Redis runs a script alone, and keeps all of it or nothing.
type scripts struct {
	set, put, remove, torn *redis.Script
}

func newScripts() scripts {
	return scripts{
		// KEYS values, index. ARGV field, old version (8 bytes), stored form, "1" if the group is in the directory.
		set: redis.NewScript(`
local have = redis.call('HGET', KEYS[1], ARGV[1])
local version = string.rep('\0', 8)
if have then version = string.sub(have, 1, 8) end
if version ~= ARGV[2] then return {0, version} end
if ARGV[4] ~= '1' and redis.call('EXISTS', KEYS[2]) == 0 then return {2, version} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
return {1, version}`),
		// KEYS values, index, pieces… ARGV field, stored form, "1" if the group is in the directory.
		put: redis.NewScript(`
local have = redis.call('HGET', KEYS[1], ARGV[1])
if have then
  if have == ARGV[2] then return 1 end
  return 0
end
if ARGV[3] ~= '1' and redis.call('EXISTS', KEYS[2]) == 0 then return 2 end
for i = 3, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 0 then return 3 end
end
for i = 3, #KEYS do redis.call('PERSIST', KEYS[i]) end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
return 1`),
		// KEYS values, index, pieces… ARGV field, the stored form that names the pieces, or empty.
		// Answers the stored form of a blob with other pieces, which is not removed; else nothing.
		remove: redis.NewScript(`
local have = redis.call('HGET', KEYS[1], ARGV[1])
if not have then return '' end
if string.byte(have, 1) == 1 and have ~= ARGV[2] then return have end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
for i = 3, #KEYS do redis.call('UNLINK', KEYS[i]) end
return ''`),
		// KEYS values, pieces… ARGV field, the stored form that names the pieces.
		// Answers 1 if the blob has that form and one of its pieces is not there, else 0. It writes nothing.
		torn: redis.NewScript(`
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
for i = 2, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 0 then return 1 end
end
return 0`),
	}
}
