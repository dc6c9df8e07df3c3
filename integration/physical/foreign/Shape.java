import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;

/**
 * What a table looks like and what happens to it. Everything else is drawn from the seed.
 *
 * @param version of the format when the table is made
 * @param upgrade the version that it is raised to after a fourth of the commits, or 0
 * @param keys the sets of columns that equality deletes compare, the first one most often; dots lead into structs
 * @param partition columns of the first spec: "region", "bucket", both with a comma, or empty
 * @param evolve columns of later specs, which take over one after the other at equal distances
 * @param formats of data and equality delete files, drawn by the file
 * @param space how many different keys there are
 * @param nulls whether key columns hold nulls
 * @param twice whether a commit writes two versions of some keys: the first mostly deleted by position, sometimes not
 * @param positions whether rows are deleted by position in older files too (deletion vectors in version 3)
 * @param global whether deletes are written under the first spec, which must be unpartitioned, after it was replaced
 * @param remove whether whole data files are removed
 * @param rename a key column that gets another name after half of the commits, or null
 * @param drop whether day, the last column, is dropped after three fourths of the commits: no later delete compares it
 * @param widen whether id is int at first and becomes long after half of the commits, and amount gets a higher precision
 * @param slashes whether files of unpartitioned specs get names with data// in them: the library makes them for a
 *     partition that is there and empty
 */
record Shape(
        @JsonProperty("name") String name,
        @JsonProperty("seed") long seed,
        @JsonProperty("commits") int commits,
        @JsonProperty("rows") int rows,
        @JsonProperty("version") int version,
        @JsonProperty("upgrade") int upgrade,
        @JsonProperty("keys") List<List<String>> keys,
        @JsonProperty("partition") String partition,
        @JsonProperty("evolve") List<String> evolve,
        @JsonProperty("formats") List<String> formats,
        @JsonProperty("space") int space,
        @JsonProperty("nulls") boolean nulls,
        @JsonProperty("twice") boolean twice,
        @JsonProperty("positions") boolean positions,
        @JsonProperty("global") boolean global,
        @JsonProperty("remove") boolean remove,
        @JsonProperty("rename") String rename,
        @JsonProperty("drop") boolean drop,
        @JsonProperty("widen") boolean widen,
        @JsonProperty("slashes") boolean slashes) {}
