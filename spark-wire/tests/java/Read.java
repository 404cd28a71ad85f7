// Reads each file of a folder as a Java stream, with the classes of Spark that are on the class path, and prints what
// it holds: one line a file, its name and the object in words. A line with "!!!" says that something is not right.

import java.io.ObjectInputStream;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

public class Read {
    public static void main(String[] arguments) throws Exception {
        List<Path> files;
        try (Stream<Path> all = Files.list(Paths.get(arguments[0]))) {
            files = all.sorted().collect(Collectors.toList());
        }
        for (Path file : files) {
            String words;
            try (ObjectInputStream in = new ObjectInputStream(Files.newInputStream(file))) {
                Object object = in.readObject();
                words = in.read() == -1 ? words(object) : "!!! more than one object";
            } catch (Exception | LinkageError error) {
                words = "!!! " + error;
            }
            System.out.println(file.getFileName() + "\t" + words.replace('\n', ' '));
        }
    }

    /** What it says of itself, and what its parts say that it hides. */
    static String words(Object object) throws Exception {
        StringBuilder words = new StringBuilder(String.valueOf(object));
        words.append(singletons(object));
        for (String part : new String[] {"appDesc", "driverDesc", "command", "defaultProfile", "resources"}) {
            Object inner = part(object, part);
            if (inner != null) {
                words.append(" | ").append(part).append(": ").append(words(inner));
            }
        }
        return words.toString();
    }

    static Object part(Object object, String name) throws Exception {
        try {
            Method method = object.getClass().getMethod(name);
            return method.invoke(object);
        } catch (NoSuchMethodException none) {
            return null;
        }
    }

    /** There is only one of each singleton, and pattern matching relies on it. */
    static String singletons(Object object) throws Exception {
        if (object == null) {
            return "";
        }
        if (object.getClass().getName().endsWith("$")) {
            Object only = object.getClass().getField("MODULE$").get(null);
            return only == object ? "" : " !!! another " + object.getClass().getName();
        }
        StringBuilder words = new StringBuilder();
        Object arity = object.getClass().getName().startsWith("scala.collection.") ? null : part(object, "productArity");
        if (arity instanceof Integer) {
            Method element = object.getClass().getMethod("productElement", int.class);
            for (int index = 0; index < (Integer) arity; index++) {
                words.append(singletons(element.invoke(object, index)));
            }
        }
        return words.toString();
    }
}
