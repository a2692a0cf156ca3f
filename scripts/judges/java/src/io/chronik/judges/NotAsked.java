package io.chronik.judges;

/**
 * Ends a case that reaches into Kafka's own broker, which does not run here. It is an Error of its
 * own, because the tests' loops that wait for a condition repeat after exceptions and assertions.
 */
public final class NotAsked extends Error {
    private static final long serialVersionUID = 1L;

    public NotAsked(String what) {
        super(what);
    }

    /** Returns the reason if a failure was caused by a NotAsked, otherwise null. */
    static String reason(Throwable failure) {
        Throwable cause = failure;
        for (int depth = 0; cause != null && depth < 20; depth++) {
            if (cause instanceof NotAsked) {
                return cause.getMessage();
            }
            cause = cause.getCause();
        }
        return null;
    }
}
