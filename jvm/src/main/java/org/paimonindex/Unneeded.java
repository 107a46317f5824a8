package org.paimonindex;

import java.util.function.Supplier;

/**
 * Work that a query can do without: whatever it throws, the engine goes on with its own.
 *
 * <p>A release of the engine may lack a class or a method, or have another one; a cluster may lack the logger.
 */
final class Unneeded {

    private Unneeded() {}

    /** Ours; the engine's where that fails. */
    static <T> T orElse(Object table, Supplier<T> ours, Supplier<T> engines) {
        try {
            return ours.get();
        } catch (RuntimeException | LinkageError | StackOverflowError e) {
            run(() -> Scans.left(table, NotAskedException.of(e)));
            return engines.get();
        }
    }

    static void run(Runnable work) {
        try {
            work.run();
        } catch (RuntimeException | LinkageError | StackOverflowError e) {
            // Counting and logging themselves fail: nobody is left to say so to.
        }
    }
}
