package org.paimonindex;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.paimon.utils.JsonSerdeUtil;

/**
 * JSON of whoever answers at the service's address, read within bounds.
 *
 * <p>The engine's reader goes as deep as its stack, and takes a minute for a number of two million digits.
 */
final class BoundedJson {

    private static final int MOST_BYTES = 8 << 20;
    private static final int MOST_DEPTH = 64;
    /** More than any number of 64 bits has. */
    private static final int MOST_DIGITS = 64;

    private BoundedJson() {}

    /**
     * The members of an object.
     *
     * @throws IllegalArgumentException the bytes are no object, or beyond a bound
     */
    static Map<?, ?> object(byte[] content) {
        check(content);
        Map<?, ?> object = JsonSerdeUtil.fromJson(new String(content, StandardCharsets.UTF_8), Map.class);
        if (object == null) {
            throw new IllegalArgumentException("expected a JSON object, found null");
        }
        return object;
    }

    private static void check(byte[] content) {
        if (content.length > MOST_BYTES) {
            throw new IllegalArgumentException("the JSON has " + content.length + " bytes, more than " + MOST_BYTES);
        }
        int depth = 0;
        int digits = 0;
        boolean isText = false;
        for (int i = 0; i < content.length; i++) {
            byte each = content[i];
            if (isText) {
                if (each == '\\') {
                    i++;
                } else if (each == '"') {
                    isText = false;
                }
                continue;
            }
            digits = each >= '0' && each <= '9' ? digits + 1 : 0;
            isText = each == '"';
            if (each == '[' || each == '{') {
                depth++;
            } else if (each == ']' || each == '}') {
                depth--;
            }
            if (depth > MOST_DEPTH || digits > MOST_DIGITS) {
                throw new IllegalArgumentException(
                        "the JSON nests more than " + MOST_DEPTH + " levels or has a number of more than " + MOST_DIGITS
                                + " digits at byte " + i);
            }
        }
    }
}
