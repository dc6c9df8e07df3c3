/** Starts the Trino server on the class path. */
public class Trino {
    public static void main(String[] version) {
        new io.trino.server.Server().start(version[0]);
    }
}
