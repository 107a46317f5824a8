import java.lang.reflect.Field;

/** Writes the options of a release: on each line a key, and the keys that it had before. */
public class ListOptions {
    public static void main(String[] arguments) throws Exception {
        Class<?> option = Class.forName("org.apache.paimon.options.ConfigOption");
        for (Field field : Class.forName("org.apache.paimon.CoreOptions").getDeclaredFields()) {
            if (field.getType() != option) {
                continue;
            }
            Object found = field.get(null);
            StringBuilder line = new StringBuilder((String) option.getMethod("key").invoke(found));
            for (Object older : (Iterable<?>) option.getMethod("fallbackKeys").invoke(found)) {
                line.append(' ').append(older.getClass().getMethod("getKey").invoke(older));
            }
            System.out.println(line);
        }
    }
}
