package org.paimonindex;

import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.paimon.utils.JsonSerdeUtil;

/**
 * The service over HTTP: one question, at most {@code paimon-index.timeout} in all, its body included.
 *
 * <p>A URL that is not reached, or does not answer in time, is asked by nobody in this JVM for {@link #QUIET}.
 */
final class Service {

    private static final Duration QUIET = Duration.ofSeconds(30);
    private static final int OK = 200;
    private static final int TOO_MANY_REQUESTS = 429;
    private static final int SERVER_ERROR = 500;

    private static final HttpClient CLIENT =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    /** When a URL may be asked again, in {@link System#nanoTime} of this JVM. */
    private static final Map<URI, Long> QUIET_UNTIL = new ConcurrentHashMap<>();

    private final ServiceOptions options;
    private volatile String warehouse;

    Service(ServiceOptions options) {
        this.options = options;
        this.warehouse = options.warehouse.orElse(null);
    }

    /** How long a question may take in all. */
    Duration timeout() {
        return options.timeout;
    }

    /**
     * Asks for the snapshot of the files that a query reads.
     *
     * @param question the body, as JSON
     * @throws NotAskedException no URL answered with a snapshot; the engine plans
     * @throws InterruptedException the query was cancelled
     */
    PrunedSnapshot prunedSnapshot(PlannedTable table, String question)
            throws NotAskedException, InterruptedException {
        long deadline = System.nanoTime() + options.timeout.toNanos();
        NotAskedException last = new NotAskedException(Outcome.QUIET, "no URL is asked for a while");
        for (URI uri : options.uris) {
            Long quiet = QUIET_UNTIL.get(uri);
            if (quiet != null && System.nanoTime() - quiet < 0) {
                continue;
            }
            try {
                if (warehouse == null) {
                    warehouse = Warehouses.find(ask(request(uri, "/v1/config").GET(), uri, deadline), options);
                }
                String path =
                        String.format(
                                "/v1/%s/databases/%s/tables/%s/pruned-snapshot",
                                encode(warehouse), encode(table.database), encode(table.name));
                HttpRequest.Builder request =
                        request(uri, path)
                                .header("Accept", PrunedSnapshot.MEDIA_TYPE)
                                .header("Content-Type", "application/json")
                                .POST(HttpRequest.BodyPublishers.ofString(question));
                return PrunedSnapshot.read(ask(request, uri, deadline));
            } catch (NotAskedException e) {
                if (e.outcome != Outcome.UNREACHABLE) {
                    throw e;
                }
                last = e;
            }
        }
        throw last;
    }

    private HttpRequest.Builder request(URI uri, String path) throws NotAskedException {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(uri + path));
        String token = token();
        return token == null ? request : request.header("Authorization", "Bearer " + token);
    }

    private String token() throws NotAskedException {
        if (options.tokenFile.isEmpty()) {
            return options.token.orElse(null);
        }
        try {
            return Files.readString(options.tokenFile.get()).strip();
        } catch (IOException e) {
            throw new NotAskedException(Outcome.REFUSED, "the token's file cannot be read: " + e);
        }
    }

    /** The body of an answer; {@code HttpRequest.timeout} would end with the head of the answer. */
    private static byte[] ask(HttpRequest.Builder request, URI uri, long deadline)
            throws NotAskedException, InterruptedException {
        CompletableFuture<HttpResponse<byte[]>> call =
                CLIENT.sendAsync(request.build(), HttpResponse.BodyHandlers.ofByteArray());
        try {
            HttpResponse<byte[]> answer =
                    call.get(Math.max(0, deadline - System.nanoTime()), TimeUnit.NANOSECONDS);
            int status = answer.statusCode();
            if (status == OK) {
                return answer.body();
            }
            String problem = status + " " + problem(answer.body());
            if (status >= SERVER_ERROR || status == TOO_MANY_REQUESTS) {
                // Another replica may answer; this one is asked again by the next query.
                throw new NotAskedException(Outcome.UNREACHABLE, uri + ": " + problem);
            }
            throw new NotAskedException(Outcome.REFUSED, uri + ": " + problem);
        } catch (TimeoutException | ExecutionException e) {
            QUIET_UNTIL.put(uri, System.nanoTime() + QUIET.toNanos());
            throw new NotAskedException(Outcome.UNREACHABLE, uri + ": " + e);
        } finally {
            call.cancel(true);
        }
    }

    private static String problem(byte[] body) {
        String text = new String(body, StandardCharsets.UTF_8);
        try {
            Object detail = JsonSerdeUtil.fromJson(text, Map.class).get("detail");
            return detail == null ? "" : detail.toString();
        } catch (RuntimeException e) {
            return "without a problem document";
        }
    }

    private static String encode(String segment) {
        return URLEncoder.encode(segment, StandardCharsets.UTF_8).replace("+", "%20");
    }
}
