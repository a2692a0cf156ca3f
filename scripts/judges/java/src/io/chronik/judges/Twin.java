package io.chronik.judges;

import org.opentest4j.TestAbortedException;

/**
 * Ends a case that would repeat another one: the tests run with a controller of its own and with one
 * that is also a broker, and here both are the same.
 */
public final class Twin extends TestAbortedException {
    private static final long serialVersionUID = 1L;

    /** The display name of such a case. */
    public static final String NAME = "twin";

    public Twin() {
        super("the same as with a controller of its own");
    }
}
