# Tests that sessions receive a gap if their relay was stopped while notifications were trimmed, and none if nothing was lost.
use strict;
use warnings;

use Clairon::Test qw(wait_until of_mark script_text);
use Test::More;

# The reply that the stopped relay finds contains the first of them. The others are trimmed before its next command.
use constant { NOTIFICATIONS => 200, RETENTION_MS => 1000 };

$ENV{CLAIRON_TEST_SHARDS} = 1;
for my $shards (1, 4)
{
    local $ENV{CLAIRON_TEST_SHARDS} = $shards;
    my $pg      = Clairon::Test::postgresql("main$shards");
    my $store   = Clairon::Test::store();
    my %conf    = ('store.retention' => RETENTION_MS . 'ms');
    my $feeding = Clairon::Test::relay($pg, $store, conf => {%conf});
    my $relay   = Clairon::Test::relay(undef, $store, roles => 'gate', conf => {%conf});

    my $notify = sub { my ($user, $mark, $count) = @_;
        return $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{$user}', '{\"mark\": \"$mark\"}') FROM generate_series(1, $count)") };
    my $trim = sub {
        my $now = sub { my ($s, $us) = @{ $store->execute('TIME') }; return $s * 1000 + $us / 1000 };
        my $from = $now->();
        wait_until('the retention has passed', sub { $now->() > $from + RETENTION_MS + 10 });
        $store->execute('EVAL', script_text('trim'), 1, $_, s/:stream$//r, RETENTION_MS, RETENTION_MS, 1_000_000) for $store->keys('stream');
    };
    for my $case (qw(nothing all some))
    {
        my ($session, $witness) = ($relay->client($case), $feeding->client($case));
        $notify->($case, 'before', 1);
        $_->wait_notifications(1) for $session, $witness;
        kill STOP => $relay->pid;
        $notify->($case, 'trimmed', NOTIFICATIONS) if $case ne 'nothing';
        $witness->wait_notifications(1 + ($case eq 'nothing' ? 0 : NOTIFICATIONS));
        $trim->();
        is(scalar($store->entries), 0, "$shards shards, $case: all notifications were trimmed");
        $notify->($case, 'kept', 10) if $case eq 'some';
        kill CONT => $relay->pid;
        $notify->($case, 'last', 1);
        $session->run_until('the last notification arrives', sub { of_mark($session, 'last') });
        is($session->gaps, $case eq 'nothing' ? '' : 'trimmed', "$shards shards, $case: a loss is announced, and only a loss");
        is(scalar(of_mark($session, 'kept')), $case eq 'some' ? 10 : 0, "$shards shards, $case: what is stored arrives");
        $_->close for $session, $witness;
    }
}

# A relay that is behind: the reply that it waits for has a part of the notifications, and its next command finds nothing.
{
    local $ENV{CLAIRON_TEST_SHARDS} = 1;
    my $retention_ms = 4 * RETENTION_MS;
    my ($pg, $store) = (Clairon::Test::postgresql('behind'), Clairon::Test::store());
    my $late  = Clairon::Test::delayed_replies($store->{socket});
    my $feed  = Clairon::Test::relay($pg, $store, roles => 'feed');
    my $relay = Clairon::Test::relay(undef, $late, roles => 'gate', conf => { 'store.retention' => "${retention_ms}ms" });
    my $stream = $store->shared('stream');
    my $notify = sub { my ($mark, $count) = @_;
        $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{u1}', '{\"mark\": \"$mark\"}') FROM generate_series(1, $count)");
        return };
    my $session = $relay->client('u1');
    $notify->('before', 1);
    $session->wait_notifications(1);
    $late->hold(first => '^XREAD ');
    $notify->('many', NOTIFICATIONS);
    wait_until('all notifications are stored', sub { $store->execute('XLEN', $stream) == 1 + NOTIFICATIONS });
    my $now  = sub { my ($s, $us) = @{ $store->execute('TIME') }; return $s * 1000 + $us / 1000 };
    my $from = $now->();
    $late->wait_held('first');
    wait_until('a part of the retention has passed', sub { $now->() > $from + 0.6 * $retention_ms });
    $late->hold(second => '^XREAD COUNT \d+ STREAMS '); # does not block, because there is more
    $late->release('first');
    $late->wait_held('second');
    wait_until('the retention has passed', sub { $now->() > $from + $retention_ms + 10 });
    $store->execute('EVAL', script_text('trim'), 1, $stream, $stream =~ s/:stream$//r, $retention_ms, $retention_ms, 1_000_000);
    $late->release('second');
    $notify->('last', 1);
    $session->run_until('the last notification arrives', sub { of_mark($session, 'last') });
    cmp_ok(scalar(of_mark($session, 'many')), '<', NOTIFICATIONS, 'notifications were trimmed before a relay that is behind has read them');
    is($session->gaps, 'trimmed', 'the loss is announced');
}

# A busy store has more old entries than XTRIM removes in one call.
my $store = Clairon::Test::store();
my $add   = q{for i = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], ARGV[2] .. '-' .. i, 'a', 'b') end};
sub trim { return $store->execute('EVAL', script_text('trim'), 1, 'clairon:stream', 'clairon', RETENTION_MS, RETENTION_MS, 1_000_000) }
sub is_trimmed { my ($after) = @_; return $store->execute('EVAL', script_text('range'), 1, 'clairon:stream', 'clairon', $after, 1)->[0] }
$store->execute('XGROUP', 'CREATE', 'clairon:stream', 'clairon', '0', 'MKSTREAM');
$store->execute('HSET', 'clairon:meta', 'first', '1000-1');
$store->execute('EVAL', $add, 1, 'clairon:stream', 1, 1000);
trim();
is(is_trimmed('1000-1'), 0, 'nothing was trimmed after the only entry');
$store->execute('EVAL', $add, 1, 'clairon:stream', 130_000, 2000);
my ($calls, $trimmed, $more) = (0, 0, 1);
while ($more && ++$calls < 10)
{
    my $reply = trim();
    $trimmed += $reply->[0];
    $more = $reply->[1];
    is(is_trimmed('1000-1'), 1, "the loss is known after call $calls");
}
is($trimmed, 130_000, 'all old entries are trimmed without a pause between the calls');
is(is_trimmed('2000-130000'), 0, 'and nothing after them');
$store->execute('EVAL', $add, 1, 'clairon:stream', 60_000, 3000);
trim()->[1] and trim();
is(is_trimmed('2000-130000'), 1, 'so is a loss if the second call finds nothing');

# An operator removes entries that were added after all others were trimmed.
$store->execute('EVAL', $add, 1, 'clairon:stream', 10, '9999999999999');
trim();
is(is_trimmed('3000-60000'), 0, 'nothing was trimmed');
$store->execute('XTRIM', 'clairon:stream', 'MAXLEN', 0);
is(is_trimmed('3000-60000'), 1, 'the loss is known');

done_testing();
