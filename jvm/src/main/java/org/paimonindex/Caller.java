package org.paimonindex;

import java.util.Arrays;
import java.util.function.Predicate;

/** Who called a method of ours: to some callers of the engine a table shows more than to others. */
final class Caller {

    private static final String OURS = Caller.class.getPackage().getName() + ".";

    private Caller() {}

    /** Whether the nearest caller that is not of this jar is one of these. */
    static boolean is(Predicate<StackTraceElement> wanted) {
        return Arrays.stream(new Throwable().getStackTrace())
                .filter(frame -> !frame.getClassName().startsWith(OURS))
                .findFirst()
                .filter(wanted)
                .isPresent();
    }
}
