// A real OpenID provider: panva's oidc-provider, with the keys, the audience and the lifetimes that a test chooses.
// Any login with any password is a user; see tests/support/openid_provider/__init__.py.
import { readFileSync } from 'node:fs';
import Provider from 'oidc-provider';

const { issuer, port, audience, keys, tokenSeconds } = JSON.parse(readFileSync(process.argv[2], 'utf8'));

const provider = new Provider(issuer, {
  jwks: { keys },
  clients: [
    {
      client_id: 'rainbowctl',
      application_type: 'native',
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
      response_types: ['code'],
      redirect_uris: ['http://127.0.0.1/callback', 'http://127.0.0.1/console/sign-in/openid/finish'],
    },
  ],
  cookies: { keys: ['of the tests alone'] },
  features: {
    devInteractions: { enabled: true },
    deviceFlow: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: async () => audience,
      useGrantedResource: async () => true,
      // A resource makes the access token a JSON Web Token for that audience.
      getResourceServerInfo: async () => ({
        scope: '',
        audience,
        accessTokenFormat: 'jwt',
        accessTokenTTL: tokenSeconds,
      }),
    },
  },
  findAccount: async (ctx, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
  extraTokenClaims: async () => ({ groups: ['ml', 'search'] }),
});

provider.listen(port, '127.0.0.1');
