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

# A busy store has more old entries than XTRIM removes in one call.
my $store = Clairon::Test::store();
my $add   = q{for i = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], '1000-' .. i, 'a', 'b') end};
$store->execute('XGROUP', 'CREATE', 'clairon:stream', 'clairon', '0', 'MKSTREAM');
$store->execute('EVAL', $add, 1, 'clairon:stream', 130_000);
my ($calls, $trimmed, $more) = (0, 0, 1);
while ($more && ++$calls < 10)
{
    my $reply = $store->execute('EVAL', script_text('trim'), 1, 'clairon:stream', 'clairon', RETENTION_MS, RETENTION_MS, 1_000_000);
    $trimmed += $reply->[0];
    $more = $reply->[1];
}
is($trimmed, 130_000, 'all old entries are trimmed without a pause between the calls');

done_testing();
