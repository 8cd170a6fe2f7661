# Tests that a request with a body whose token waits for the keys of its issuer is handled behind a trusted proxy.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::OpenIdProvider;
use Clairon::Test::RawSocket;
use Test::More;

my $store    = Clairon::Test::store();
my $provider = Clairon::Test::OpenIdProvider->new;
$provider->set(keys => ['rsa-1'], mode => 'hold');
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', conf => {
    'gate.trusted_proxies'    => '127.0.0.0/8',
    'auth.jwks_allow_private' => 'on',
    'issuer sso.issuer'       => 'https://sso.example.org',
    'issuer sso.jwks_url'     => $provider->url('/jwks'),
    'issuer sso.audience'     => 'clairon' });
my $token = $provider->token('rsa-1', { iss => 'https://sso.example.org', aud => 'clairon', sub => 'u1' });

my @requests = map { Clairon::Test::RawSocket->new($relay) } 1 .. 2;
$requests[0]->begin(POST => '/v1/ticket', Authorization => "Bearer $token", 'X-Forwarded-For' => '192.0.2.1', ':body' => '{}');
$requests[1]->write("POST /v1/ticket HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $token\r\nX-Forwarded-For: 192.0.2.2\r\n"
      . "Content-Length: 2\r\n\r\n{");
wait_until('the keys are requested', sub { grep { /hold/ } $provider->requests });
$provider->set(mode => 'ok');
is($requests[0]->read_response->{status}, 200, 'a complete request that waited for the keys is handled');
$requests[1]->write('}');
is($requests[1]->read_response->{status}, 200, 'a request that waited for the keys and its body is handled');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

done_testing();
