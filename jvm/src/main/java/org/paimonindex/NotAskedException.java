package org.paimonindex;

import java.util.Locale;

/** The engine plans: a question that is not put to the service, or an answer that does not fit the table. */
final class NotAskedException extends Exception {

    private static final long serialVersionUID = 1L;

    /** What the counters call this. */
    final Outcome outcome;

    NotAskedException(Outcome outcome, String message) {
        super(message);
        this.outcome = outcome;
    }

    /** The outcome in words, with its cause where there is one to tell. */
    String text() {
        String name = outcome.name().toLowerCase(Locale.ROOT).replace('_', ' ');
        return getMessage().isEmpty() ? name : name + ": " + getMessage().replaceAll("\\s+", " ");
    }

    /** Whether nothing is to be done about it. */
    boolean isOrdinary() {
        return outcome == Outcome.NO_FILTER
                || outcome == Outcome.NOT_SELECTIVE
                || outcome == Outcome.DATA_EVOLUTION;
    }

    /** What was thrown where nothing is expected to be: a class or method of the engine is missing, or another one. */
    static NotAskedException of(Throwable thrown) {
        return new NotAskedException(
                Outcome.RELEASE, "this release of the engine is not one of those that are known: " + thrown);
    }
}
