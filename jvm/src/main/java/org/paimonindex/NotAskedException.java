package org.paimonindex;

/** The engine plans: a question that is not put to the service, or an answer that does not fit the table. */
final class NotAskedException extends Exception {

    private static final long serialVersionUID = 1L;

    /** What the counters call this. */
    final Outcome outcome;

    NotAskedException(Outcome outcome, String message) {
        super(message);
        this.outcome = outcome;
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
