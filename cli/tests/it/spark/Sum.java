import java.nio.file.*;
import java.util.Arrays;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;

/** Writes a sum, and the masters that it has found, to the file that its argument names. */
public class Sum {
    public static void main(String[] args) throws Exception {
        try (JavaSparkContext sc = new JavaSparkContext(new SparkConf())) {
            int sum = sc.parallelize(Arrays.asList(1, 2, 3, 4)).reduce(Integer::sum);
            Path part = Paths.get(args[0] + ".part");
            Files.write(part, (sum + " " + sc.master()).getBytes());
            Files.move(part, Paths.get(args[0]));
        }
    }
}
