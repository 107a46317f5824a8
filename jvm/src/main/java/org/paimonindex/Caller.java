package org.paimonindex;

import java.util.function.Predicate;

/** Who called a method of ours: to some callers of the engine a table shows more than to others. */
final class Caller {

    private static final String OURS = Caller.class.getPackage().getName() + ".";
    private static final StackWalker STACK = StackWalker.getInstance();

    private Caller() {}

    /** Whether the nearest caller that is not of this jar is one of these. */
    static boolean is(Predicate<StackWalker.StackFrame> wanted) {
        return STACK.walk(
                frames ->
                        frames.filter(frame -> !frame.getClassName().startsWith(OURS))
                                .findFirst()
                                .filter(wanted)
                                .isPresent());
    }
}
