# Tests that a cut-off closes the connections of a user, of one token or of a session on all relays, also on a paused one
# and on one that starts later, and rejects their tokens until it ends.
use strict;
use warnings;
use utf8;

use Clairon::Test qw(wait_until token audited script_text);
use Clairon::Test::EventStream;
use Clairon::Test::OpenIdProvider;
use Clairon::Test::RawSocket;
use Digest::SHA qw(sha256_hex);
use JSON ();
use POSIX ();
use Test::More;

use constant LIMIT => 100_000;

my $store    = Clairon::Test::store();
my $provider = Clairon::Test::OpenIdProvider->new;
my %issuer   = (iss => 'https://sso.example.org', aud => 'clairon');
my %conf     = (
    'auth.jwks_allow_private' => 'on',
    'issuer sso.issuer'       => $issuer{iss},
    'issuer sso.jwks_url'     => $provider->url('/jwks'),
    'issuer sso.audience'     => 'clairon, web',
    'issuer sso.user_prefix'  => 'sso:');
my $root = token(sub => 'root', admin => JSON::true);

sub start { return Clairon::Test::relay(undef, $store, roles => 'gate', conf => \%conf) }
sub iso { my ($time) = @_; return POSIX::strftime('%Y-%m-%dT%H:%M:%SZ', gmtime $time) }
sub early { return token(iat => time - 60, @_) }
sub later { return token(iat => time + 2, @_) }     # within auth.leeway
sub bearer { my ($token) = @_; return (Authorization => "Bearer $token") }

sub request
{
    my ($relay, $method, $path, @rest) = @_;
    return Clairon::Test::RawSocket->new($relay)->request($method, $path, @rest);
}

sub post { my ($relay, $path, $body, @headers) = @_; return request($relay, 'POST', $path, ':body' => $body, @headers) }
sub kick { my ($relay, $user, $body) = @_; return post($relay, "/v1/users/$user/disconnect", $body // {}, bearer($root))->{status} }
sub session { my ($relay, $token) = @_; return Clairon::Test::RawSocket->user($relay, '', token => $token) }

# Returns the user of a session with this token or ticket, or the code with which the connection is closed.
sub outcome
{
    my ($relay, $token, %headers) = @_;
    my $raw = Clairon::Test::RawSocket->open($relay, %headers);
    $raw->send_json({ t => 'connect', (defined $token ? (token => $token) : ()) });
    my $line = eval { $raw->next_message };
    if ($line && $line->{t} eq 'connected')
    {
        $raw->disconnect;
        return $line->{user};
    }
    return $raw->read_to_end->{code} if $line;
    return $@ =~ /closed with (\d+)/ ? $1 : $@;
}

sub is_open
{
    my ($raw, $name) = @_;
    $raw->send_json({ t => 'ping' });
    is($raw->next_message->{t}, 'pong', $name);
    return;
}

sub is_rejected
{
    my ($relay, $token, $name) = @_;
    is(outcome($relay, $token), 4003, "$name: a WebSocket is closed with 4003");
    my $response = post($relay, '/v1/ticket', '', bearer($token));
    is_deeply([ $response->{status}, $response->{json}{code} ], [ 403, 103 ], "$name: over HTTP 403 with code 103");
    return;
}

sub ticket { my ($relay, $token) = @_; return post($relay, '/v1/ticket', '', bearer($token))->{json}{ticket} }

$provider->set(keys => ['p256-1']);
my ($near, $away) = (start(), start());
$_->wait_for_log(qr/keys of an issuer fetched/) for $near, $away;

# A user, over all transports and on two relays, one of which is paused.
my $old     = early(sub => 'ada');
my $socket  = session($near, $old);
my $distant = session($away, $old);
my $bob     = session($near, early(sub => 'bob'));
my $stream  = Clairon::Test::EventStream->open($near, undef, bearer($old));
$stream->wait_message('connected');
my $poll = Clairon::Test::RawSocket->new($near);
$poll->begin('GET', '/v1/poll?wait=60', bearer($old));
my $slow = Clairon::Test::RawSocket->new($near);
$slow->begin('POST', '/v1/ack', bearer($old), 'Content-Length' => 100, ':body' => '{"ids":');
my @tickets = map { ticket($near, $old) } 1 .. 2;
wait_until('the poll waits', sub { $near->log_text =~ m{stream opened" path=/v1/poll} || $near->log_text =~ /stream opened.*poll/ });
kill STOP => $away->pid;
is(kick($near, 'ada'), 204, 'a kick is accepted');
my $bye = $socket->ends_with(4003, 'a kick');
is($bye->{msg}, 'access revoked: sign in again', 'the bye has a clear text');
ok(!exists $bye->{in}, 'and no time to reconnect');
is_deeply([ map { @{$_}{qw(t code)} } ($stream->wait_end)[-1] ], [ 'bye', 4003 ], 'an event stream ends with a bye');
my $end = $poll->read_response;
is_deeply([ $end->{status}, $end->{json}{code} ], [ 403, 103 ], 'a poll ends with 403 and code 103');
$slow->write(' ' x 93);
is($slow->read_response->{status}, 403, 'a request whose body arrives later is rejected');
is_rejected($near, $old, 'an earlier token');
is_rejected($near, token(sub => 'ada'), 'a token without iat');
is(request($near, 'GET', '/v1/poll?wait=0', bearer($old))->{status}, 403, 'a poll is rejected');
is(Clairon::Test::EventStream->open($near, undef, bearer($old))->{status}, 403, 'an event stream is rejected');
is(Clairon::Test::EventStream->open($near, undef, ':path' => "/v1/sse?ticket=$tickets[0]")->{status}, 403, 'a ticket is rejected over HTTP');
is(outcome($near, undef, ':path' => "/v1/ws?ticket=$tickets[1]"), 4003, 'a ticket is rejected by a WebSocket');
is($near->metric('clairon_gate_tokens_rejected_total{reason="cut_off"}'), 9, 'each rejected token and ticket is counted');
is_open($bob, 'the connection of another user stays open');
my $again = session($near, later(sub => 'ada'));
is_open($again, 'a token that is issued later is accepted');
is(outcome($near, undef, ':path' => '/v1/ws?ticket=' . ticket($near, later(sub => 'ada'))), 'ada', 'so is its ticket');
$again->send_json({ t => 'refresh', r => 1, token => $old });
$again->ends_with(4003, 'a refresh with an earlier token');
kill CONT => $away->pid;
$distant->ends_with(4003, 'a kick during a pause of the relay');
is_rejected($away, $old, 'a relay that was paused');
my $late = start();
is_rejected($late, $old, 'a relay that was started later');
is(outcome($late, later(sub => 'ada')), 'ada', 'which accepts a later token');
is_deeply([ audited($near->log_text) ], ['act="kick" object="ada"'], 'the kick is audited');
is_deeply([ grep { /:ada\b/ } @{ $store->execute('KEYS', '*') } ], [], 'no key of the store has the name');
unlike(join(' ', @{ $store->execute('HGETALL', $store->shared('cutoffs')) }), qr/ada/, 'nor has the list of cut-offs');

# An announcement that arrives late: of an earlier cut-off than the one that the relay has.
my $ann = substr(sha256_hex("user\0ann\0"), 0, 32);
is(kick($near, 'ann'), 204, 'a user is kicked');
$store->execute('XADD', $store->shared('control'), '*', qw(change cutoff digest), $ann, 'value', time - 3600 . ':' . (time + 3600));
is(kick($away, 'bea'), 204, 'so is another user');
wait_until('the relay has read the next announcement', sub { outcome($near, early(sub => 'bea')) eq '4003' });
is_rejected($near, early(sub => 'ann'), 'an earlier announcement that arrives late changes nothing: a token');

# A single token, with the command.
my %tokens = map { $_ => early(sub => 'eve', jti => $_) } 'first', 'second';
my %eve = map { $_ => session($away, $tokens{$_}) } keys %tokens;
my ($code, $out, $err) = $near->run('kick', 'eve', '--jti', 'first');
is_deeply([ $code, $out, audited($err) ], [ 0, '', 'act="kick" object="eve"' ], 'the command succeeds, and is audited');
$eve{first}->ends_with(4003, 'a kick of one token');
is_rejected($_, $tokens{first}, 'the token') for $near, $away;
is_open($eve{second}, 'another token of the user stays connected');
is(outcome($near, $tokens{second}), 'eve', 'and is accepted');
is(outcome($near, early(sub => 'mallory', jti => 'first')), 'mallory', 'so is a token of another user with the same jti');
is(($near->run('kick', 'eve'))[0], 0, 'the command kicks a user');
$eve{second}->ends_with(4003, 'the command');

my $dash = session($near, early(sub => '-x'));
is(system($near->{program}, 'kick', '-c', $near->{file}, '--', '-x'), 0, 'a user that starts with - follows --');
$dash->ends_with(4003, 'the kick of that user');

# A cut-off that ends.
my $carl = early(sub => 'carl');
is(kick($near, 'carl', { until => iso(time + 3) }), 204, 'a kick with an end is accepted');
is_rejected($away, $carl, 'until the end') if wait_until('the other relay knows it', sub { outcome($away, $carl) eq '4003' });
wait_until("$_->{port}: the token is accepted after the end", sub { outcome($_, $carl) eq 'carl' }) for $near, $away;
is(kick($near, 'dora', { until => iso(time + $_) }), 204, "a kick for $_ s") for 600, 10;
is(scalar(grep { /^\d+:(\d+)$/ && $1 > time + 500 && $1 < time + 700 } @{ $store->execute('HVALS', $store->shared('cutoffs')) }), 1,
    'the second one does not shorten the first one');

# Fields that relays cannot read.
for my $value ('nonsense', '1:2:3', '1234567890123:1234567890123')
{
    $store->execute('HSET', $store->shared('cutoffs'), substr(sha256_hex("user\0gil\0"), 0, 32), $value);
    is(kick($near, 'gil'), 204, "a kick replaces the field $value");
    is_rejected($near, early(sub => 'gil'), 'the user');
}

# Requests.
my $odd = early(sub => 'a/b ü%');
my $named = session($near, $odd);
is(kick($near, 'a%2Fb%20%C3%BC%25'), 204, 'the user is percent-encoded');
$named->ends_with(4003, 'a kick of a name with a slash');
is(kick($near, '%3F'), 204, 'a user may be named ?');
is_rejected($near, early(sub => '?'), 'the user ?');
is(kick($near, $_->[0]), $_->[1], "$_->[2]: status $_->[1]")
  for [ 'x' x 256, 400, 'a name of 256 bytes' ], [ '%ff', 400, 'invalid UTF-8' ], [ '', 404, 'no name' ], [ '..', 404, 'two dots' ], [ 'a/b', 404, 'two segments' ];
is(kick($near, 'x', $_->[0]), 400, "$_->[1] is rejected")
  for [ { until => 'tomorrow' }, 'no time' ], [ { until => iso(time - 1) }, 'a time in the past' ], [ { jti => 7 }, 'a number as jti' ],
  [ { jti => '' }, 'an empty jti' ], [ { unless => 1 }, 'an unknown member' ], [ '[]', 'an array' ], [ '{', 'invalid JSON' ];
is(post($near, '/v1/users/x/disconnect', '', bearer($root))->{status}, 204, 'the body is optional');
is(post($near, '/v1/users/x/disconnect', {}, bearer(token(sub => 'x', publish => JSON::true)))->{status}, 403, 'the claim admin is required');
is(post($near, '/v1/users/x/disconnect', {})->{status}, 401, 'a token is required');
is(request($near, 'GET', '/v1/users/x/disconnect', bearer($root))->{status}, 405, 'the method is POST');
is(($near->run('kick', @$_))[0], 2, "kick @$_: wrong usage") for [], [ 'x', '--until', 'tomorrow' ], [ 'x', '--until', iso(time - 1) ], [ 'x', 'y' ];

# A logout at the identity provider.
my $EVENT = 'http://schemas.openid.net/event/backchannel-logout';
sub access { my (%claims) = @_; return $provider->token('p256-1', { %issuer, iat => time - 60, %claims }) }

sub logout_token
{
    my ($claims, %options) = @_;
    my %all = (%issuer, aud => 'web', iat => time, jti => 'j1', events => { $EVENT => {} }, %$claims);
    delete $all{$_} for grep { !defined $all{$_} } CORE::keys %all;
    return $provider->token($options{key} // 'p256-1', \%all, header => { typ => 'logout+jwt', %{ $options{header} // {} } });
}

sub logout
{
    my ($relay, $form) = @_;
    return post($relay, '/v1/backchannel-logout', $form, 'Content-Type' => 'application/x-www-form-urlencoded');
}

my %sessions = map { $_ => session($away, access(sub => 'amy', sid => $_)) } 's1', 's2';
my $response = logout($near, 'logout_token=' . logout_token({ sub => 'amy', sid => 's1' }));
is($response->{status}, 200, 'a logout of a session is accepted');
is($response->{headers}{'cache-control'}, 'no-store', 'and not cached');
$sessions{s1}->ends_with(4003, 'a logout of the session');
is_rejected($_, access(sub => 'amy', sid => 's1'), 'the session') for $near, $away;
is_open($sessions{s2}, 'another session of the user stays connected');
is(outcome($near, early(sub => 'sso:amy', sid => 's1')), 'sso:amy', 'a session of another issuer with the same sid is accepted');
for my $case (
    [ { nonce  => 'n' },                            'a nonce' ],
    [ { events => undef },                          'no events' ],
    [ { events => { 'http://example.org/' => {} } }, 'another event' ],
    [ { events => { $EVENT => 'x' } },              'an event that is no object' ],
    [ { jti    => undef },                          'no jti' ],
    [ { iat    => undef },                          'no iat' ],
    [ { iat    => time + 600 },                     'an iat in the future' ],
    [ { exp    => time - 60 },                      'an end in the past' ],
    [ { aud    => 'other' },                        'another audience' ],
    [ { aud    => undef },                          'no audience' ],
    [ { iss    => 'https://other.example.org' },    'another issuer' ],
    [ { sub    => undef },                          'neither sub nor sid' ],
    [ { sid    => 7 },                              'a number as sid' ],
    [ {}, 'the type of an access token', header => { typ => 'at+jwt' } ],
    [ {}, 'a signature of another key',  key => 'p256-7', header => { kid => 'p256-1' } ])
{
    my ($claims, $name, %options) = @$case;
    my $bad = logout($near, 'logout_token=' . logout_token({ sub => 'amy', %$claims }, %options));
    is_deeply([ $bad->{status}, $bad->{json}{error}, $bad->{headers}{'cache-control'} ], [ 400, 'invalid_request', 'no-store' ], "$name is rejected");
    ok(length($bad->{json}{error_description} // ''), "$name: with a description");
}
is(logout($near, $_)->{status}, 400, "the form $_ is rejected") for '', 'token=x', 'logout_token=', 'logout_token=%zz';
is(logout($near, 'logout_token=' . access(sub => 'amy'))->{status}, 400, 'an access token is no logout token');
is(outcome($near, $provider->token('p256-1', { %issuer, iat => time, jti => 'j', sub => 'amy', events => { $EVENT => {} } })), 4001, 'a logout token grants no access');
is_open($sessions{s2}, 'rejected logouts change nothing');
my $shards = $store->sum('HSET', 'subscriptions:sso:amy', 'id', '1 x');    # one of them is the user's
is(logout($near, 'logout_token=' . logout_token({ sub => 'amy', sid => 's8' }))->{status}, 200, 'a logout of another session is accepted');
is($store->sum('EXISTS', 'subscriptions:sso:amy'), $shards, 'the subscriptions of the user stay, for the other sessions');
is(logout($near, 'state=1&logout_token=' . logout_token({ sub => 'amy', exp => undef }, header => { typ => 'JWT' }))->{status}, 200, 'a logout of a user is accepted');
$sessions{s2}->ends_with(4003, 'a logout of the user');
is($store->sum('EXISTS', 'subscriptions:sso:amy'), $shards - 1, 'and removes the Web Push subscriptions of the user');
is_rejected($near, access(sub => 'amy', sid => 's3'), 'all earlier tokens');
is(outcome($near, access(sub => 'amy', sid => 's4', iat => time + 2)), 'sso:amy', 'a later token is accepted');
is(logout($near, 'logout_token=' . logout_token({ sub => 'bea', iat => time - 30 }))->{status}, 200, 'an older logout of a user is accepted');
is(outcome($near, access(sub => 'bea', iat => time - 10)), 'sso:bea', 'it ends no session that began later');
is_rejected($near, access(sub => 'bea'), 'only an earlier one');
$provider->set(keys => ['p256-2']);
is(logout($near, 'logout_token=' . logout_token({ sid => 's9' }, key => 'p256-2'))->{status}, 200, 'a logout token with an unknown key waits for the keys');

# The store restarts while a relay is paused, so that its connection misses the announcement.
my $fred   = early(sub => 'fred');
my $paused = session($away, $fred);
kill STOP => $away->pid;
$store->restart;
wait_until('a kick is accepted after the restart', sub { kick($near, 'fred') == 204 });
kill CONT => $away->pid;
$paused->ends_with(4003, 'a kick that a relay has missed');
$_->wait_ready for $near, $away;
is_rejected($_, $fred, 'after a restart of the store') for $near, $away;

# The list is bounded: the cut-off that ends first goes.
my $ivy = early(sub => 'ivy');
is(kick($near, 'ivy', { until => iso(time + 300) }), 204, 'a kick that ends first');
is_rejected($near, $ivy, 'until there are too many');
fill();
$late->restart;
is_rejected($late, $ivy, 'a relay that has read 100 000 cut-offs');
is(kick($near, 'last'), 204, 'a kick beyond the limit');
is($store->execute('HLEN', $store->shared('cutoffs')), LIMIT, 'the number of cut-offs is limited');
is($store->execute('ZCARD', $store->shared('cutoff_ends')), LIMIT, 'so is their order');
$_->wait_for_log(qr/level=warn .*too many cut-offs: the one that ends first was removed/) for $near, $away, $late;
is(outcome($_, $ivy), 'ivy', 'the one that ends first has been removed') for $near, $away, $late;
is_rejected($_, early(sub => 'last'), 'the last one counts') for $near, $away, $late;
is_rejected($late, $fred, 'so do the others');

# Replicas: a cut-off that none of them has counts, but a failover would lose it.
my $lonely = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { %conf, 'store.min_replicas' => 1 });
is(kick($lonely, 'gus'), 503, 'a cut-off that no replica has is not confirmed');
is_rejected($lonely, early(sub => 'gus'), 'but it counts');

# Many cut-offs do not hide the newest membership change from a relay that starts.
my $control = $store->shared('control');
$store->execute('XADD', $control, '*', qw(change + audience ROLE target a user zoe xid 77));
$store->execute('XADD', $control, '*', qw(change cutoff digest x value 0:0)) for 1 .. 50;
my ($prefix) = $control =~ /^(.*):control$/;
my $hello = $store->execute('EVAL', script_text('hello'), 1, "$prefix:stream", $prefix, 'e' x 16, $store->shards, '1', '');
ok((grep { $_ eq '77' } @{ $hello->[6] }), 'cut-offs are left out of the newest changes') or diag(explain($hello));

# Adds cut-offs that end later than that of ivy, up to the limit.
sub fill
{
    $store->execute('EVAL', q{
        local ends = redis.call('TIME')[1] + 86400
        for i = redis.call('HLEN', KEYS[1]) + 1, tonumber(ARGV[1]) do
            local digest = string.format('%032x', i)
            redis.call('HSET', KEYS[1], digest, '1:' .. string.format('%.0f', ends))
            redis.call('ZADD', KEYS[2], string.format('%.0f', ends), digest)
        end
    }, 2, $store->shared('cutoffs'), $store->shared('cutoff_ends'), LIMIT);
    return;
}

done_testing();
