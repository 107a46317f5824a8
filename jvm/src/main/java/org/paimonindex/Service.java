package org.paimonindex;

import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;

/**
 * The service over HTTP: one question, at most {@code paimon-index.timeout} in all, its body included.
 *
 * <p>What does not answer is left alone for a while, see {@link Silence}.
 */
final class Service {

    private static final String JSON = "application/json";
    private static final int OK = 200;
    private static final int NOT_FOUND = 404;
    private static final int TOO_MANY_REQUESTS = 429;
    private static final int SERVER_ERROR = 500;

    private final ServiceOptions options;
    /** Null until they are asked for, and again after a table was in none. */
    private volatile Warehouses warehouses;

    Service(ServiceOptions options) {
        this.options = options;
    }

    /**
     * Asks for the snapshot of the files that a query reads.
     *
     * @param question the body, as JSON
     * @param meanwhile work that does not need the answer, done while the service looks for it
     * @throws NotAskedException no URL answered with a snapshot; the engine plans
     * @throws InterruptedException the query was cancelled
     */
    PrunedSnapshot prunedSnapshot(PlannedTable table, String question, Runnable meanwhile)
            throws NotAskedException, InterruptedException {
        long deadline = System.nanoTime() + options.timeout.toNanos();
        NotAskedException last = new NotAskedException(Outcome.QUIET, "no URL has time to answer");
        for (int i = 0; i < options.uris.size(); i++) {
            URI uri = options.uris.get(i);
            Optional<String> silence = Silence.cause(uri, table);
            if (silence.isPresent()) {
                last = new NotAskedException(Outcome.QUIET, "not asked for 30 s: " + silence.get());
                continue;
            }
            // One that does not answer leaves time for those behind it.
            long left = deadline - System.nanoTime();
            if (left <= 0) {
                break;
            }
            Attempt attempt = new Attempt(uri, table, System.nanoTime() + left / (options.uris.size() - i));
            try {
                URI place = URI.create(uri + route(attempt, table));
                return PrunedSnapshot.read(attempt.ask(place, PrunedSnapshot.MEDIA_TYPE, question, meanwhile));
            } catch (NotAskedException e) {
                if (e.outcome == Outcome.NOT_FOUND) {
                    Silence.afterUnknownTable(uri, table, e.getMessage());
                    warehouses = null;
                }
                if (e.outcome != Outcome.UNREACHABLE && e.outcome != Outcome.LATE) {
                    throw e;
                }
                last = e;
            }
        }
        throw last;
    }

    private String route(Attempt attempt, PlannedTable table) throws NotAskedException, InterruptedException {
        if (options.warehouse.isPresent()) {
            return Warehouses.routeIn(options.warehouse.get(), table, options.catalogWarehouse);
        }
        Warehouses all = warehouses;
        if (all == null) {
            all = new Warehouses(attempt.ask(URI.create(attempt.uri + "/v1/config"), JSON, null, () -> {}));
            warehouses = all;
        }
        return all.route(table, options.catalogWarehouse);
    }

    /** How long the service may read indexes for one question: half of what is waited for one URL. */
    long budgetMillis() {
        return options.timeout.toMillis() / (2L * options.uris.size());
    }

    private String token() throws NotAskedException {
        if (!options.tokenFile.isPresent()) {
            return options.token.orElse(null);
        }
        try {
            // A pipe would be waited for.
            if (!Files.isRegularFile(options.tokenFile.get())) {
                throw new IOException("it is no regular file");
            }
            return new String(Files.readAllBytes(options.tokenFile.get()), StandardCharsets.UTF_8).trim();
        } catch (IOException e) {
            throw new NotAskedException(Outcome.REFUSED, ServiceOptions.PREFIX + "token-file cannot be read: " + e);
        }
    }

    /** One URL and how long it is waited for, its further exchanges included. */
    private final class Attempt {

        private final URI uri;
        private final PlannedTable table;
        /** In {@link System#nanoTime}. */
        private final long until;

        Attempt(URI uri, PlannedTable table, long until) {
            this.uri = uri;
            this.table = table;
            this.until = until;
        }

        byte[] ask(URI place, String accept, String question, Runnable meanwhile)
                throws NotAskedException, InterruptedException {
            Exchange.Answer answer;
            long start = System.nanoTime();
            try {
                byte[] body = question == null ? null : question.getBytes(StandardCharsets.UTF_8);
                Runnable late = body != null && Silence.isFirst(uri, table) ? () -> Silence.end(uri, table) : null;
                answer = Exchange.of(connection(place, accept), body, meanwhile, until, late);
            } catch (TimeoutException | ExecutionException e) {
                throw failed(e instanceof TimeoutException ? e : e.getCause());
            } finally {
                Scans.asked(System.nanoTime() - start);
            }
            Silence.afterAnswer(uri);
            if (answer.status == OK) {
                return answer.body;
            }
            // Another replica may answer; an overloaded one is asked again by the next query.
            boolean isOverloaded = answer.status >= SERVER_ERROR || answer.status == TOO_MANY_REQUESTS;
            Outcome refusal = answer.status == NOT_FOUND ? Outcome.NOT_FOUND : Outcome.REFUSED;
            throw new NotAskedException(
                    isOverloaded ? Outcome.UNREACHABLE : refusal,
                    uri + ": " + answer.status + " " + problem(answer.body));
        }

        private HttpURLConnection connection(URI place, String accept) throws NotAskedException {
            String token = token();
            try {
                HttpURLConnection connection = (HttpURLConnection) place.toURL().openConnection();
                connection.setRequestProperty("Accept", accept);
                connection.setRequestProperty("Content-Type", JSON);
                if (token != null) {
                    connection.setRequestProperty("Authorization", "Bearer " + token);
                }
                return connection;
            } catch (IOException e) {
                throw failed(e);
            } catch (IllegalArgumentException e) {
                // Its message has the token.
                throw new NotAskedException(Outcome.REFUSED, "the token has characters that no header may have");
            }
        }

        private NotAskedException failed(Throwable cause) {
            if (cause instanceof IllegalStateException) {
                return new NotAskedException(Outcome.REFUSED, uri + ": " + cause.getMessage());
            }
            if (cause instanceof TimeoutException || cause instanceof SocketTimeoutException) {
                String late = uri + " is late: perhaps the first read of this table, which is asked about again once "
                                + "the service has read it";
                Silence.afterLateAnswer(uri, table, late);
                return new NotAskedException(Outcome.LATE, late);
            }
            // The message of an unknown host is its name.
            String message = cause instanceof UnknownHostException ? "its host is not known" : cause.getMessage();
            String failure = uri + " is not reached: " + message;
            Silence.afterFailure(uri, failure);
            return new NotAskedException(Outcome.UNREACHABLE, failure);
        }
    }

    private static String problem(byte[] body) {
        try {
            Object detail = BoundedJson.object(body).get("detail");
            return detail == null ? "" : detail.toString();
        } catch (RuntimeException e) {
            return "without a problem document";
        }
    }
}
