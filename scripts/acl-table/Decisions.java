import java.net.InetAddress;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Prints what Kafka's StandardAuthorizer decides for random access rules and requests.
 * Arguments: the number of sets of rules, and the seed. Lines of tab-separated fields, enumerations as Kafka's codes:
 * set, allow.everyone.if.no.acl.found, super users;
 * acl, type, pattern, permission, operation, principal, host, name;
 * ask, type, principal, host, name, the operations that are allowed (bits by their codes, hexadecimal);
 * any, type, principal, host, the operations that authorizeByResourceType allows.
 */
public class Decisions {
    static final String[] NAMES = {"orders", "orders-eu", "orders-eu-1", "orders.eu", "o", "or", "ord", "pay", "payments", "payments-dlq",
        "p", "kafka-cluster", "kafka", "hard", "hardcode", "Orders", "zz", "\u00e9t\u00e9", "\u00e9", "\ud83d\ude00-x", "\ud83d\ude00"};
    static final String[] PRINCIPALS = {"User:alice", "User:alice", "User:bob", "User:carol", "Group:alice", "User:CN=bob,OU=a:b,O=c",
        "User:root", "User:ops", "user:alice", "User:"};
    static final String[] HOSTS = {"127.0.0.1", "127.0.0.1", "10.0.0.1", "10.0.0.11", "0:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:0:1"};
    static final int DENY_PERCENT = 25;
    final Random random;
    // What most rules and requests of a set have, so that rules meet.
    String[] names;
    String[] principals;
    String[] hosts;

    Decisions(long seed) {
        random = new Random(seed);
    }

    public static void main(String[] args) throws Exception {
        System.out.println("# Apache Kafka " + AppInfoParser.getVersion() + ", seed " + args[1]);
        var decisions = new Decisions(Long.parseLong(args[1]));
        for (int i = 0; i < Integer.parseInt(args[0]); i++) {
            decisions.record(i);
        }
    }

    /** Records one set of rules. The number decides what is rare: few or many rules, super users, allow.everyone. */
    void record(int number) throws Exception {
        boolean everyone = number % 4 == 3;
        String superUsers = number % 3 == 0 ? "" : "User:root;User:ops";
        var authorizer = new StandardAuthorizer();
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.configure(Map.of("super.users", superUsers, "allow.everyone.if.no.acl.found", String.valueOf(everyone)));
        System.out.println(String.join("\t", "set", String.valueOf(everyone), superUsers));
        names = some(NAMES, 6);
        principals = some(PRINCIPALS, 3);
        hosts = some(HOSTS, 2);
        Map<Uuid, StandardAcl> rules = new HashMap<>();
        for (int n = random.nextInt(number % 5 == 0 ? 4 : 40); n >= 0; n--) {
            StandardAcl acl = rule();
            if (rules.containsValue(acl)) {
                continue;
            }
            rules.put(new Uuid(number, n), acl);
            System.out.println(String.join("\t", "acl", code(acl.resourceType().code()), code(acl.patternType().code()),
                code(acl.permissionType().code()), code(acl.operation().code()), acl.principal(), acl.host(), acl.resourceName()));
        }
        authorizer.loadSnapshot(rules);
        authorizer.completeInitialLoad();
        var asked = new TreeSet<String>();
        for (int i = 0; i < 60; i++) {
            ResourceType type = type();
            String name = random.nextInt(6) == 0 ? one(names) + "-new" : random.nextInt(6) == 0 ? one(NAMES) : one(names);
            String principal = random.nextInt(8) == 0 ? one(PRINCIPALS) : one(principals);
            String host = random.nextInt(8) == 0 ? one(HOSTS) : one(hosts);
            if (asked.add(type + principal + host + name)) {
                ask(authorizer, type, principal, host, name);
            }
        }
        for (int i = 0; i < 8; i++) {
            askAny(authorizer, type(), one(principals), one(hosts));
        }
        authorizer.close();
    }

    StandardAcl rule() {
        boolean prefixed = random.nextInt(3) == 0;
        String name = !prefixed && random.nextInt(5) == 0 ? "*" : prefixed && random.nextInt(20) == 0 ? "*" : one(names);
        String principal = random.nextInt(6) == 0 ? "User:*" : one(principals);
        String host = random.nextInt(2) == 0 ? "*" : random.nextInt(12) == 0 ? "10.0.0.0/8" : one(hosts);
        AclOperation operation = random.nextInt(5) == 0 ? AclOperation.ALL : operation();
        AclPermissionType permission = random.nextInt(100) < DENY_PERCENT ? AclPermissionType.DENY : AclPermissionType.ALLOW;
        return new StandardAcl(type(), name, prefixed ? PatternType.PREFIXED : PatternType.LITERAL, principal, host, operation, permission);
    }

    ResourceType type() {
        int n = random.nextInt(13);
        int rare = 4 + n - 10 + (n == 12 ? random.nextInt(2) : 0); // cluster, transactional id, token, user
        return n < 8 ? ResourceType.TOPIC : n < 10 ? ResourceType.GROUP : ResourceType.fromCode((byte) rare);
    }

    AclOperation operation() {
        return AclOperation.fromCode((byte) (3 + random.nextInt(13)));
    }

    String[] some(String[] of, int n) {
        return random.ints(n, 0, of.length).mapToObj(i -> of[i]).toArray(String[]::new);
    }

    String one(String[] of) {
        return of[random.nextInt(of.length)];
    }

    static String code(int code) {
        return String.valueOf(code);
    }

    static void ask(StandardAuthorizer authorizer, ResourceType type, String principal, String host, String name) throws Exception {
        int mask = 0;
        for (byte op = 3; op <= 15; op++) {
            var action = new Action(AclOperation.fromCode(op), new ResourcePattern(type, name, PatternType.LITERAL), 1, false, false);
            if (authorizer.authorize(client(principal, host), List.of(action)).get(0) == AuthorizationResult.ALLOWED) {
                mask |= 1 << op;
            }
        }
        System.out.println(String.join("\t", "ask", code(type.code()), principal, host, name, Integer.toHexString(mask)));
    }

    static void askAny(StandardAuthorizer authorizer, ResourceType type, String principal, String host) throws Exception {
        int mask = 0;
        for (byte op = 3; op <= 15; op++) {
            var result = authorizer.authorizeByResourceType(client(principal, host), AclOperation.fromCode(op), type);
            if (result == AuthorizationResult.ALLOWED) {
                mask |= 1 << op;
            }
        }
        System.out.println(String.join("\t", "any", code(type.code()), principal, host, Integer.toHexString(mask)));
    }

    static AuthorizableRequestContext client(String principal, String host) throws Exception {
        int colon = principal.indexOf(':');
        var user = new KafkaPrincipal(principal.substring(0, colon), principal.substring(colon + 1));
        InetAddress address = InetAddress.getByName(host);
        return new AuthorizableRequestContext() {
            @Override public String listenerName() {
                return "CLIENTS";
            }

            @Override public SecurityProtocol securityProtocol() {
                return SecurityProtocol.SASL_SSL;
            }

            @Override public KafkaPrincipal principal() {
                return user;
            }

            @Override public InetAddress clientAddress() {
                return address;
            }

            @Override public int requestType() {
                return 0;
            }

            @Override public int requestVersion() {
                return 0;
            }

            @Override public String clientId() {
                return "";
            }

            @Override public int correlationId() {
                return 0;
            }
        };
    }
}
