package io.chronik.judges;

import org.junit.jupiter.engine.descriptor.ClassTestDescriptor;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.TestDescriptor;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.UniqueId;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * Runs the cases of one test class of Kafka's, and writes a line for each: its name, the result and a
 * reason (scripts/judges/README.md). A line with the result "begun" is written when a case begins, so
 * that one that never ends is known.
 *
 * <p>Arguments: the class, the file of the results, the file of the cases that are not asked, and a
 * regular expression of the cases to run, or "".
 */
public final class Judge {
    private static final int MAX_REASON = 400;

    private final PrintStream results;
    private final String name;
    private final Map<String, String> names = new HashMap<>();
    private final Map<String, Integer> counts = new HashMap<>();

    private Judge(String name, PrintStream results) {
        this.name = name;
        this.results = results;
    }

    public static void main(String[] args) throws Exception {
        Map<String, String> notAsked = new LinkedHashMap<>();
        for (String line : Files.readAllLines(Path.of(args[2]))) {
            int at = line.indexOf(" # ");
            if (!line.startsWith("#") && at > 0) {
                notAsked.put(line.substring(0, at).trim(), line.substring(at + 3).trim());
            }
        }
        Pattern cases = Pattern.compile(args[3]);
        try (PrintStream results = new PrintStream(Files.newOutputStream(Path.of(args[1])), true, StandardCharsets.UTF_8)) {
            String simple = args[0].substring(args[0].lastIndexOf('.') + 1);
            Judge judge = new Judge(simple, results);
            DiscoverySelector selector = DiscoverySelectors.selectClass(args[0]);
            LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
                .selectors(selector)
                .filters((PostDiscoveryFilter) descriptor -> judge.choose(descriptor, notAsked, cases))
                .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
                .configurationParameter("junit.jupiter.execution.timeout.testable.method.default", "5 m")
                .configurationParameter("junit.jupiter.execution.timeout.lifecycle.method.default", "5 m")
                .build();
            Launcher launcher = LauncherFactory.create();
            launcher.execute(request, judge.new Listener());
            for (String setting : Settings.LEFT_OUT) {
                judge.write("", "setting", setting);
            }
            judge.write("", "end", "");
        }
        // Threads that a test has left must not keep the process.
        Runtime.getRuntime().halt(0);
    }

    private FilterResult choose(TestDescriptor descriptor, Map<String, String> notAsked, Pattern cases) {
        if (descriptor instanceof ClassTestDescriptor || descriptor.getSource().filter(MethodSource.class::isInstance).isEmpty()) {
            return FilterResult.included("no method");
        }
        String method = name + "." + ((MethodSource) descriptor.getSource().get()).getMethodName();
        if (!cases.matcher(method).find()) {
            return FilterResult.excluded("not chosen");
        }
        String reason = notAsked.get(method);
        if (reason != null) {
            write(method, "notasked", reason);
            return FilterResult.excluded(reason);
        }
        return FilterResult.included("chosen");
    }

    private synchronized void write(String testCase, String result, String reason) {
        results.println(testCase + "\t" + result + "\t" + reason);
    }

    private final class Listener implements TestExecutionListener {
        @Override
        public void executionStarted(TestIdentifier test) {
            if (test.isTest() && !twin(test)) {
                write(caseOf(test), "begun", "");
            }
        }

        @Override
        public void executionSkipped(TestIdentifier test, String reason) {
            write(caseOf(test), "skip", line(reason));
        }

        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            if (!test.isTest() && result.getStatus() == TestExecutionResult.Status.SUCCESSFUL) {
                return;
            }
            if (twin(test)) {
                return;
            }
            Throwable failure = result.getThrowable().orElse(null);
            switch (result.getStatus()) {
                case SUCCESSFUL:
                    write(caseOf(test), "pass", "");
                    break;
                case ABORTED:
                    write(caseOf(test), "skip", line(String.valueOf(failure)));
                    break;
                default:
                    String notAsked = NotAsked.reason(failure);
                    if (notAsked != null) {
                        write(caseOf(test), "notasked", notAsked);
                    } else {
                        failure.printStackTrace();
                        write(caseOf(test), "fail", line(describe(failure)));
                    }
            }
        }
    }

    private static boolean twin(TestIdentifier test) {
        return test.isTest() && test.getDisplayName().equals(Twin.NAME);
    }

    /**
     * Returns Class.method, with the number of the configuration or of the parameters in brackets. It
     * is counted here, without twins, because JUnit numbers those in an order that differs between runs.
     */
    private synchronized String caseOf(TestIdentifier test) {
        String known = names.get(test.getUniqueId());
        if (known != null) {
            return known;
        }
        String result = base(test);
        if (test.isTest() && result.endsWith("[]")) {
            int number = counts.merge(result, 1, Integer::sum);
            result = result.substring(0, result.length() - 1) + number + "]";
        }
        names.put(test.getUniqueId(), result);
        return result;
    }

    private String base(TestIdentifier test) {
        StringBuilder result = new StringBuilder(name);
        for (UniqueId.Segment segment : test.getUniqueIdObject().getSegments()) {
            String value = segment.getValue();
            switch (segment.getType()) {
                case "nested-class":
                    result.append('.').append(value);
                    break;
                case "method":
                case "test-template":
                case "test-factory":
                    int parameters = value.indexOf('(');
                    result.append('.').append(parameters < 0 ? value : value.substring(0, parameters));
                    break;
                case "test-template-invocation":
                case "dynamic-test":
                case "dynamic-container":
                    result.append("[]");
                    break;
                default:
            }
        }
        return result.toString();
    }

    /** Returns the failure, its causes, and where the test class was. */
    private String describe(Throwable failure) {
        StringBuilder result = new StringBuilder();
        for (Throwable cause = failure; cause != null && cause != cause.getCause(); cause = cause.getCause()) {
            result.append(result.length() == 0 ? "" : "; caused by ").append(cause);
        }
        for (StackTraceElement frame : failure.getStackTrace()) {
            if (frame.getClassName().endsWith("." + name)) {
                return "line " + frame.getLineNumber() + ": " + result;
            }
        }
        return result.toString();
    }

    private static String line(String text) {
        String result = text.replaceAll("\\s+", " ").trim();
        return result.length() > MAX_REASON ? result.substring(0, MAX_REASON) + "…" : result;
    }
}
