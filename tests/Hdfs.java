import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;

/**
 * HDFS in one process: a name node and a data node.
 *
 * <pre>
 * Hdfs DIRECTORY WAREHOUSE
 * standard output  the port of the name node, once the files of a local directory are in /warehouse
 * standard input   its end ends the process
 * </pre>
 */
public class Hdfs {
    public static void main(String[] arguments) {
        try {
            serve(arguments);
        } catch (Exception e) {
            e.printStackTrace();
        }
        // Threads of the nodes go on otherwise.
        System.exit(0);
    }

    private static void serve(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.set("fs.defaultFS", "hdfs://127.0.0.1:0");
        settings.set("dfs.namenode.rpc-address", "127.0.0.1:0");
        settings.set("dfs.namenode.http-address", "127.0.0.1:0");
        settings.set("dfs.namenode.name.dir", "file://" + arguments[0] + "/names");
        settings.set("dfs.namenode.datanode.registration.ip-hostname-check", "false");
        settings.set("dfs.namenode.safemode.extension", "0");
        settings.set("dfs.datanode.data.dir", "file://" + arguments[0] + "/data");
        settings.set("dfs.datanode.address", "127.0.0.1:0");
        settings.set("dfs.datanode.http.address", "127.0.0.1:0");
        settings.set("dfs.datanode.ipc.address", "127.0.0.1:0");
        settings.set("dfs.datanode.hostname", "127.0.0.1");
        settings.set("dfs.replication", "1");
        // Each file that is being written counts as a whole block of the disk's space, of which there may be little.
        settings.set("dfs.blocksize", "1048576");
        settings.set("dfs.permissions.enabled", "false");
        // Its writers wait so long for a block that the name node has not heard of yet.
        settings.set("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", "5");
        // A data node that did not answer once, on a busy machine, is the only one there is: it is asked again.
        settings.set("dfs.client.write.exclude.nodes.cache.expiry.interval.millis", "0");
        settings.set("dfs.client.block.write.retries", "20");
        DefaultMetricsSystem.setMiniClusterMode(true);
        NameNode.format(settings);
        int port = new NameNode(settings).getNameNodeAddress().getPort();
        settings.set("fs.defaultFS", "hdfs://127.0.0.1:" + port);
        settings.set("dfs.namenode.rpc-address", "127.0.0.1:" + port);
        DataNode.createDataNode(new String[0], settings);
        FileSystem.get(settings).copyFromLocalFile(new Path("file://" + arguments[1]), new Path("/warehouse"));
        System.out.println(port);
        System.in.read();
    }
}
