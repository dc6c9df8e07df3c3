# a closed chunk
rowgroups block=4^5 range=0,4096
----
[0,1024) [1024,2048) [2048,3072) [3072,4096)

rowgroups block=4^7 range=0,65536
----
[0,16384) [16384,32768) [32768,49152) [49152,65536)

# the same range has the same groups whether its chunk is open or closed: sizes grow as alignment allows
rowgroups block=4^7 range=0,21000
----
[0,16384) [16384,20480) [20480,21000)

# a start inside of the smallest full group: a rest up to it first
rowgroups block=4^7 range=1500,24000
----
[1500,2048) [2048,3072) [3072,4096) [4096,8192) [8192,12288) [12288,16384) [16384,20480) [20480,21504) [21504,22528) [22528,23552) [23552,24000)

# one rest may be all of it
rowgroups block=4^9 range=5,9
----
[5,9)

rowgroups block=4^9 range=1023,1025
----
[1023,1024) [1024,1025)

# blocks smaller than 1024
rowgroups block=4^2 range=3,40
----
[3,16) [16,32) [32,40)

rowgroups block=4^5 range=7,7
----
