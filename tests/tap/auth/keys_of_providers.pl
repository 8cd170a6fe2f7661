# Tests the keys of identity providers: an OpenID provider that rotates its keys, breaks and comes back, a file with a JWK
# Set, and several issuers.
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch);
use Clairon::Test::Authority;
use Clairon::Test::OpenIdProvider;
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $store    = Clairon::Test::store();
my $provider = Clairon::Test::OpenIdProvider->new;
my $file     = scratch() . '/jwks';
my %keycloak = (iss => 'https://sso.example.org/realms/app', aud => [ 'account', 'clairon' ], sub => 'x', preferred_username => 'ada',
    typ => 'Bearer', azp => 'web', realm_access => { roles => ['nurse'] });
my %other = (iss => 'https://other.example.org/', aud => 'clairon', sub => 'x');
my %conf = (
    'auth.jwks_allow_private'       => 'on',
    'issuer keycloak.issuer'        => $keycloak{iss},
    'issuer keycloak.jwks_url'      => $provider->url('/jwks'),
    'issuer keycloak.audience'      => 'clairon',
    'issuer keycloak.user_claim'    => 'preferred_username',
    'issuer keycloak.user_prefix'   => 'kc:',
    'issuer keycloak.groups_claim'  => 'realm_access.roles',
    'issuer other.issuer'           => $other{iss},
    'issuer other.jwks_file'        => $file,
    'issuer other.audience'         => 'clairon');

sub write_keys
{
    my ($text) = @_;
    open my $out, '>', "$file.new" or die "could not write: $!";
    print {$out} $text;
    close $out;
    rename "$file.new", $file or die "could not rename: $!";
    return;
}

sub start { return Clairon::Test::relay(undef, $store, roles => 'gate', conf => { %conf, @_ }) }

# Returns the user of a session with this token, or the code with which the connection is closed.
sub outcome
{
    my ($relay, $token) = @_;
    my $raw = Clairon::Test::RawSocket->open($relay);
    $raw->send_json({ t => 'connect', token => $token });
    my $line = eval { $raw->next_message };
    if ($line && $line->{t} eq 'connected')
    {
        $raw->disconnect;
        return $line->{user};
    }
    return $raw->read_to_end->{code} unless !$line && $@ =~ /closed with (\d+)/;
    return $1;
}

sub keycloak { my ($key, %options) = @_; return $provider->token($key, \%keycloak, %options) }
sub other { my ($key, %options) = @_; return $provider->token($key, \%other, %options) }

sub reload
{
    my ($relay, $words) = @_;
    my $mark = $relay->log_mark;
    kill HUP => $relay->pid;
    wait_until("the relay logs $words", sub { $relay->log_text($mark) =~ $words });
    return;
}

$provider->set(keys => [ 'rsa-1', 'p256-1', 'p384-1', 'ed25519-1' ]);
write_keys($provider->set);
my $relay = start();
$relay->wait_for_log(qr/keys of an issuer fetched" issuer="keycloak" keys=4/);

# Algorithms and issuers.
is(outcome($relay, keycloak('rsa-1', alg => $_)), 'kc:ada', "$_ is accepted") for qw(RS256 RS384 RS512 PS256 PS384 PS512);
is(outcome($relay, keycloak($_)), 'kc:ada', "a token of $_ is accepted") for qw(p256-1 p384-1 ed25519-1);
is(outcome($relay, other('rsa-1')), 'x', 'a token of the other issuer is accepted');
is(outcome($relay, token(sub => 'u1')), 'u1', 'a token of the secret is accepted');
is(outcome($relay, $provider->token('rsa-1', { %keycloak, iss => 'https://unknown.example.org' })), 4001, 'another issuer is rejected');
is(outcome($relay, token(%keycloak)), 4001, 'the secret signs no token of the provider');
is(outcome($relay, $provider->token('rsa-1', { %keycloak, aud => 'account' })), 4001, 'another audience is rejected');
is(outcome($relay, keycloak('rsa-1', header => { crit => ['exp'] })), 4001, 'crit is rejected');
is(outcome($relay, keycloak('p256-1', header => { kid => 'rsa-1' })), 4001, 'a key of another type is not used');
is(outcome($relay, keycloak('p256-9', header => { kid => 'p256-1', jku => $provider->url('/evil'), x5u => $provider->url('/evil') })), 4001,
    'keys named by the header are not used');
is_deeply([ $provider->requests ], ['GET /jwks ok'], 'the keys were fetched once');
is(($relay->get('/v1/receipts', Authorization => 'Bearer ' . $provider->token('rsa-1', { %keycloak, publish => JSON::true, admin => JSON::true })))[0], 403,
    'the claims publish and admin of a provider do not count');

# A rotation: a token with an unknown kid waits for one fetch.
my $first = keycloak('rsa-1');
is(outcome($relay, $first), 'kc:ada', 'the first key is accepted');
$provider->set(keys => [ 'rsa-2', 'p256-1' ], mode => 'hold');
my $waiting = Clairon::Test::RawSocket->open($relay);
$waiting->send_json({ t => 'connect', token => keycloak('rsa-2') });
wait_until('the keys are requested', sub { 2 == (() = $provider->requests) });
my $session = Clairon::Test::RawSocket->user($relay, 'kc:ada', token => keycloak('p256-1'));
$session->send_json({ t => 'refresh', r => 7, token => keycloak('rsa-2') });
my $poll = Clairon::Test::RawSocket->new($relay);
$poll->begin('GET', '/v1/poll?wait=0', Authorization => 'Bearer ' . keycloak('rsa-2'));
my $ack = Clairon::Test::RawSocket->new($relay);
$ack->begin('POST', '/v1/ack', Authorization => 'Bearer ' . keycloak('rsa-2'), ':body' => { ids => ['01890a5d-ac96-774b-bcce-b302099a8057'] });
$session->send_json({ t => 'refresh', r => 8, token => keycloak('rsa-2') });
is($session->wait_message('err')->{msg}, '"refresh" in progress', 'a refresh waits for the keys');
$provider->set(mode => 'ok');
is($waiting->next_message->{user}, 'kc:ada', 'the connect is answered after the fetch');
is($session->wait_message('refreshed')->{r}, 7, 'the refresh is answered after the fetch');
is($poll->read_response->{status}, 204, 'a poll is answered after the fetch');
is($ack->read_response->{status}, 204, 'a request with a body is answered after the fetch');
is(scalar(() = $provider->requests), 2, 'all waited for one fetch');
$_->disconnect for $waiting, $session;
is(outcome($relay, keycloak('rsa-2')), 'kc:ada', 'the new key is accepted');
is(outcome($relay, $first), 4103, 'a token of the removed key is not accepted any more');
is(outcome($relay, keycloak('rsa-3')), 4103, 'an unknown key within a minute of a fetch: try later');
my $response = Clairon::Test::RawSocket->new($relay)->request('GET', '/v1/poll?wait=0', Authorization => 'Bearer ' . keycloak('rsa-3'));
is($response->{status}, 503, 'over HTTP: 503');
ok($response->{headers}{'retry-after'}, 'with Retry-After') or diag(explain($response));
is(scalar(() = $provider->requests), 2, 'and no further fetch');

# The provider breaks.
for my $mode ('garbage', 'empty', 'large', 'redirect', '500')
{
    $provider->set(mode => $mode, keys => ['rsa-4']);
    reload($relay, qr/could not fetch the keys of an issuer" issuer="keycloak"/);
    is(outcome($relay, keycloak('rsa-2')), 'kc:ada', "$mode keeps the last keys");
}
unlike(join("\n", $provider->requests), qr{/other|/evil}, 'no redirect is followed');
my ($kept, $unknown) = map { keycloak($_) } 'rsa-2', 'rsa-9';
$provider->stop;
reload($relay, qr/could not fetch the keys of an issuer" issuer="keycloak"/);
is(outcome($relay, $kept), 'kc:ada', 'a provider that is away keeps the last keys');

# A refresh whose key is not available: the session continues with its token.
my $living = Clairon::Test::RawSocket->user($relay, 'kc:ada', token => $kept);
$living->send_json({ t => 'refresh', r => 9, token => $unknown });
my $error = $living->wait_message('err');
is_deeply([ @$error{qw(r code retry)} ], [ 9, 111, JSON::true ], 'a refresh with an unavailable key is rejected for a while') or diag(explain($error));
ok($error->{after}, 'with the time of the next try');
$living->send_json({ t => 'ping' });
ok($living->wait_message('pong'), 'and the session continues');
$living->send_json({ t => 'refresh', r => 10, token => 'x' });
is($living->read_to_end->{code}, 4001, 'an invalid token still ends it');

# The last keys are in the store: relays that start meanwhile use them.
$relay->kill9;
$relay->start;
$relay->wait_for_log(qr/last keys of an issuer read from the store" issuer="keycloak" keys=2/, from => $relay->{start_mark});
is(outcome($relay, $kept), 'kc:ada', 'after a crash, the last keys are read from the store');
my ($stored) = @{ $store->execute('KEYS', '*:issuer_keys:*') };
my $text = $store->execute('GET', $stored);
ok($store->execute('PTTL', $stored) > 29 * 86_400_000, 'they are kept for 30 days');
for my $garbage ('garbage', '{"keys":[]}', '{"keys":[{"kty":"oct","k":"' . 'A' x 64 . '"}]}', $text . ' ' x 262_144)
{
    $store->execute('SET', $stored, $garbage);
    my $poor = start();
    $poor->wait_for_log(qr/keys of an issuer in the store are not usable" issuer="keycloak"/);
    is(outcome($poor, $kept), 4103, 'other text in the store is not used: try later');
    is($poor->stop, 0, 'the relay ends with status 0');
}
$store->execute('DEL', $stored);

# The provider comes back, for a relay that was started meanwhile as well.
my $second = start();
$second->wait_for_log(qr/could not fetch the keys of an issuer" issuer="keycloak"/);
is(outcome($second, $kept), 4103, 'without keys: try later');
$provider->start;
wait_until('the provider is back', sub { eval { $provider->set(mode => 'ok', keys => ['p256-5']) } });
wait_until('the relay fetches the keys', sub { $second->log_text =~ /keys of an issuer fetched/ });
is(outcome($second, keycloak('p256-5')), 'kc:ada', 'a relay that was started without the provider accepts its tokens later');
is($second->stop, 0, 'it ends with status 0');
wait_until('the first relay fetches the keys', sub { $relay->log_text($relay->{start_mark}) =~ /keys of an issuer fetched/ });
$provider->set(keys => [ 'p256-5', 'p256-6' ]);
reload($relay, qr/keys of an issuer fetched/);
is(outcome($relay, keycloak('p256-6')), 'kc:ada', 'SIGHUP fetches the keys');

# Keys in a file.
is(outcome($relay, other('p256-5')), 4001, 'an unknown key of a file is rejected');
write_keys($provider->set);
reload($relay, qr/auth key file unchanged/);
is(outcome($relay, other('p256-5')), 'x', 'SIGHUP reads the file again');
write_keys('garbage');
reload($relay, qr/could not read the keys of an issuer: previous keys still in use" issuer="other"/);
is(outcome($relay, other('p256-5')), 'x', 'a file without keys has no effect');
unlink $file;
reload($relay, qr/could not reload a JWK Set: previous keys still in use/);
is(outcome($relay, other('p256-5')), 'x', 'a missing file has no effect');
is(outcome($relay, $provider->token('p256-5', { %keycloak, _claim_names => { groups => 'src1' } })), 'kc:ada', 'a token without groups that the provider left out is accepted');
is($relay->metric('clairon_groups_overage_total'), 1, 'and counted');

# A right to publish with limits.
sub publish
{
    my ($right, %routing) = @_;
    my $raw = Clairon::Test::RawSocket->new($relay);
    return $raw->request('POST', '/v1/notifications', Authorization => 'Bearer ' . token(sub => 'app', publish => $right),
        ':body' => { metadata => { topic => 'app.a' }, payload => { a => 1 }, routing => { audience => \%routing } })->{status};
}
my %user = (type => 'USER', targets => ['u1']);
is(publish({ audiences => ['USER'], topics => ['app.*'] }, %user), 201, 'an allowed audience and topic');
is(publish({ audiences => ['USER'] }, type => 'ROLE', targets => ['r']), 403, 'another audience');
is(publish({ topics => ['app.b'] }, %user), 403, 'another topic');
is(publish({ topics => 'app.a' }, %user), 403, 'another shape is no right');

is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

# [auth] with a URL and no other key.
$provider->set(mode => 'hold');
my $alone = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'auth.hs256_secret_file' => undef,
    'auth.jwks_url' => $provider->url('/jwks'), 'auth.jwks_allow_private' => 'on', 'auth.audience' => 'clairon' });
my $early = Clairon::Test::RawSocket->open($alone);
$early->send_json({ t => 'connect', token => $provider->token('p256-5', { sub => 'u7', aud => 'clairon' }) });
$early->send_json({ t => 'connect', token => 'x' });
is($early->next_message->{msg}, '"connect" in progress', 'a token waits for the first fetch');
my $gone = Clairon::Test::RawSocket->open($alone);
$gone->send_json({ t => 'connect', token => $provider->token('p256-5', { sub => 'u8', aud => 'clairon' }) }, { t => 'ping' });
$gone->next_message;
$gone->disconnect;
$provider->set(mode => 'ok');
is($early->next_message->{user}, 'u7', 'and is accepted then');
is($alone->stop, 0, 'the relay ends with status 0');

# A provider with TLS.
my $certificate = Clairon::Test::Authority->new->certificate('IP:127.0.0.1');
my $secure = Clairon::Test::OpenIdProvider->new(%$certificate);
$secure->set(keys => ['ed25519-1']);
my %secure = ('auth.jwks_url' => $secure->url('/jwks'), 'auth.jwks_ca' => $certificate->{ca}, 'auth.jwks_allow_private' => 'on', 'auth.hs256_secret_file' => undef);
for ([ 'auth.jwks_ca' => undef, qr/could not fetch .*certificate/ ], [ 'auth.jwks_allow_private' => undef, qr/could not fetch .*address/ ], [ 'gate.workers' => 2, qr/fetched.*fetched/s ])
{
    my ($setting, $value, $words) = @$_;
    my $tls = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { %secure, $setting => $value });
    wait_until("the relay logs $words", sub { $tls->log_text =~ $words });
    pass("the keys of a provider with TLS, and $setting");
    is($tls->stop, 0, 'the relay ends with status 0');
}

done_testing();
