# a delete is a gap: it takes offset 12 and no row position
layout log2=4 range=10,14
10 row
11 row
12 delete
13 row
----
[10,14) rows 10->0 11->1 13->2 deletes 12

# a file that begins inside of its chunk counts from its own first row
positions file=11,14
----
11->0 13->1

# nothing is known beyond the range
class 9 12 13 14
----
9 unknown 12 delete 13 row 14 unknown

# what is added begins where the layout ends: neither above nor below
extend range=15,16
15 row
----
conflict

extend range=13,16
13 delete
----
conflict

# an open chunk grows at its end and nothing in it changes
extend range=14,16
15 row
----
[10,16) rows 10->0 11->1 13->2 15->3 deletes 12

# the next chunk has a layout of its own
extend range=16,18
----
conflict

# a scan over several chunks makes a layout for each; a chunk of gaps has one too
layout log2=2 range=6,17
7 row
8-10 nonrow
15 bad
16 truncate
----
[6,8) rows 7->0
[8,12) nonrows 8 9
[12,16) bad 15
[16,17) truncates 16

# an offset has one class
layout log2=4 range=0,4
1 row
1 delete
----
invalid

layout log2=4 range=0,4
4 row
----
invalid

layout log2=4 range=0,4
2 row
1-3 nonrow
----
invalid
