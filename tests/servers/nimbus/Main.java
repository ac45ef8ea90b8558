import com.nimbusds.jose.JOSEException;
import com.nimbusds.jose.JWSAlgorithm;
import com.nimbusds.jose.jwk.source.JWKSourceBuilder;
import com.nimbusds.jose.proc.BadJOSEException;
import com.nimbusds.jose.proc.JWSVerificationKeySelector;
import com.nimbusds.jose.proc.SecurityContext;
import com.nimbusds.jose.util.DefaultResourceRetriever;
import com.nimbusds.jose.util.JSONObjectUtils;
import com.nimbusds.jwt.JWTClaimsSet;
import com.nimbusds.jwt.proc.DefaultJWTClaimsVerifier;
import com.nimbusds.jwt.proc.DefaultJWTProcessor;
import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.text.ParseException;
import java.util.Map;
import java.util.Set;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;

/**
 * A relying party for the tests, built on Nimbus JOSE + JWT: it knows an issuer URL, an audience and a CA, and says of
 * each token on its standard input whether it accepts it.
 */
public final class Main {
    private static final int TIMEOUT_MS = 10_000;

    public static void main(String[] args) throws Exception {
        String issuer = argument(args, "--issuer");
        String audience = argument(args, "--audience");
        var retriever = new DefaultResourceRetriever(
            TIMEOUT_MS, TIMEOUT_MS, 0, true, trusting(Path.of(argument(args, "--ca"))));
        URL url = URI.create(issuer + "/.well-known/openid-configuration").toURL();
        Map<String, Object> discovery = JSONObjectUtils.parse(retriever.retrieveResource(url).getContent());
        if (!issuer.equals(discovery.get("issuer"))) {
            throw new IllegalStateException(url + " names the issuer " + discovery.get("issuer"));
        }
        URL jwks = URI.create((String) discovery.get("jwks_uri")).toURL();
        var processor = new DefaultJWTProcessor<SecurityContext>();
        processor.setJWSKeySelector(new JWSVerificationKeySelector<>(
            Set.of(JWSAlgorithm.RS256, JWSAlgorithm.ES256, JWSAlgorithm.ES384, JWSAlgorithm.ES512),
            JWKSourceBuilder.create(jwks, retriever).build()));
        processor.setJWTClaimsSetVerifier(new DefaultJWTClaimsVerifier<>(
            audience, new JWTClaimsSet.Builder().issuer(issuer).build(), Set.of("sub", "exp")));
        say(Map.of("ready", true));
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String token = lines.readLine(); token != null; token = lines.readLine()) {
            say(judge(processor, token.strip()));
        }
    }

    private static Map<String, Object> judge(DefaultJWTProcessor<SecurityContext> processor, String token) {
        try {
            return Map.of("accepted", true, "subject", processor.process(token, null).getSubject());
        } catch (ParseException | BadJOSEException | JOSEException error) {
            return Map.of("accepted", false, "error", String.valueOf(error.getMessage()));
        }
    }

    private static SSLSocketFactory trusting(Path ca) throws Exception {
        var store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream pem = Files.newInputStream(ca)) {
            for (Certificate certificate : CertificateFactory.getInstance("X.509").generateCertificates(pem)) {
                store.setCertificateEntry("ca-" + store.size(), certificate);
            }
        }
        var managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(store);
        var context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        return context.getSocketFactory();
    }

    private static String argument(String[] args, String name) {
        for (int i = 0; i + 1 < args.length; i += 2) {
            if (args[i].equals(name)) {
                return args[i + 1];
            }
        }
        throw new IllegalArgumentException(name + " is missing");
    }

    private static void say(Map<String, Object> answer) {
        System.out.println(JSONObjectUtils.toJSONString(answer));
    }

    private Main() {}
}
