package org.paimonindex;

import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.file.Files;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * The service over HTTP: one question, at most {@code paimon-index.timeout} in all, its body included.
 *
 * <p>What does not answer is left alone for a while, see {@link Silence}.
 */
final class Service {

    private static final int OK = 200;
    private static final int NOT_FOUND = 404;
    private static final int TOO_MANY_REQUESTS = 429;
    private static final int SERVER_ERROR = 500;

    private static final HttpClient CLIENT =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

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
        NotAskedException last = new NotAskedException(Outcome.QUIET, "the service is not asked for 30 s");
        for (int i = 0; i < options.uris.size(); i++) {
            URI uri = options.uris.get(i);
            if (Silence.isKept(uri, table)) {
                continue;
            }
            // One that does not answer leaves time for those behind it.
            long left = deadline - System.nanoTime();
            if (left <= 0) {
                break;
            }
            Attempt attempt = new Attempt(uri, table, System.nanoTime() + left / (options.uris.size() - i));
            try {
                HttpRequest.Builder request =
                        request(uri, route(attempt, table))
                                .header("Accept", PrunedSnapshot.MEDIA_TYPE)
                                .header("Content-Type", "application/json")
                                .POST(HttpRequest.BodyPublishers.ofString(question));
                return PrunedSnapshot.read(attempt.ask(request, meanwhile));
            } catch (NotAskedException e) {
                if (e.outcome == Outcome.NOT_FOUND) {
                    Silence.afterUnknownTable(uri, table);
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
            all = new Warehouses(attempt.ask(request(attempt.uri, "/v1/config").GET(), () -> {}));
            warehouses = all;
        }
        return all.route(table, options.catalogWarehouse);
    }

    /** How long the service may read indexes for one question: half of what is waited for one URL. */
    long budgetMillis() {
        return options.timeout.toMillis() / (2L * options.uris.size());
    }

    private HttpRequest.Builder request(URI uri, String path) throws NotAskedException {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(uri + path));
        String token = token();
        try {
            return token == null ? request : request.header("Authorization", "Bearer " + token);
        } catch (IllegalArgumentException e) {
            // Its message has the token.
            throw new NotAskedException(Outcome.REFUSED, "the token has characters that no header may have");
        }
    }

    private String token() throws NotAskedException {
        if (options.tokenFile.isEmpty()) {
            return options.token.orElse(null);
        }
        try {
            // A pipe would be waited for.
            if (!Files.isRegularFile(options.tokenFile.get())) {
                throw new IOException("it is no regular file");
            }
            return Files.readString(options.tokenFile.get()).strip();
        } catch (IOException e) {
            throw new NotAskedException(Outcome.REFUSED, "the token's file cannot be read: " + e);
        }
    }

    /** One URL and how long it is waited for, its further exchanges included. */
    private static final class Attempt {

        private final URI uri;
        private final PlannedTable table;
        /** In {@link System#nanoTime}. */
        private final long until;

        Attempt(URI uri, PlannedTable table, long until) {
            this.uri = uri;
            this.table = table;
            this.until = until;
        }

        byte[] ask(HttpRequest.Builder request, Runnable meanwhile) throws NotAskedException, InterruptedException {
            HttpResponse<byte[]> answer;
            long start = System.nanoTime();
            try {
                try {
                    answer = send(request, meanwhile);
                } catch (ExecutionException e) {
                    if (!isBroken(e.getCause())) {
                        throw e;
                    }
                    // The service closes connections that nobody used for a while, perhaps in this moment.
                    answer = send(request, () -> {});
                }
            } catch (TimeoutException | ExecutionException e) {
                throw failed(e instanceof TimeoutException ? e : e.getCause());
            } finally {
                Scans.asked(System.nanoTime() - start);
            }
            Silence.afterAnswer(uri);
            int status = answer.statusCode();
            if (status == OK) {
                return answer.body();
            }
            // Another replica may answer; an overloaded one is asked again by the next query.
            boolean isOverloaded = status >= SERVER_ERROR || status == TOO_MANY_REQUESTS;
            Outcome refusal = status == NOT_FOUND ? Outcome.NOT_FOUND : Outcome.REFUSED;
            throw new NotAskedException(
                    isOverloaded ? Outcome.UNREACHABLE : refusal, uri + ": " + status + " " + problem(answer.body()));
        }

        private NotAskedException failed(Throwable cause) {
            if (cause instanceof IllegalStateException) {
                return new NotAskedException(Outcome.REFUSED, uri + ": " + cause.getMessage());
            }
            if (isLate(cause)) {
                Silence.afterLateAnswer(uri, table);
                return new NotAskedException(
                        Outcome.LATE,
                        uri + " is late: perhaps the first read of this table, and the next one will be planned");
            }
            Silence.afterFailure(uri);
            String message = cause.getMessage() == null ? "nobody answers there" : cause.getMessage();
            return new NotAskedException(Outcome.UNREACHABLE, uri + " is not reached: " + message);
        }

        private static boolean isLate(Throwable cause) {
            return cause instanceof TimeoutException
                    || cause instanceof HttpTimeoutException && !(cause instanceof HttpConnectTimeoutException);
        }

        private static boolean isBroken(Throwable cause) {
            return cause instanceof IOException
                    && !(cause instanceof ConnectException)
                    && !(cause instanceof HttpTimeoutException);
        }

        /** {@code HttpRequest.timeout} ends with the head of the answer, so its body is bounded here. */
        private HttpResponse<byte[]> send(HttpRequest.Builder request, Runnable meanwhile)
                throws ExecutionException, InterruptedException, TimeoutException {
            BoundedBody body = new BoundedBody();
            long left = Math.max(1, until - System.nanoTime());
            CompletableFuture<HttpResponse<byte[]>> call =
                    CLIENT.sendAsync(request.timeout(Duration.ofNanos(left)).build(), head -> body);
            try {
                meanwhile.run();
                return call.get(Math.max(0, until - System.nanoTime()), TimeUnit.NANOSECONDS);
            } finally {
                call.cancel(true);
                body.cancel();
            }
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
