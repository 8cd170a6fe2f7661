# Tests receipts of an audience of 100 000 users, which ends in many steps: each pair has exactly one, and the
# notification's own receipt has the counts. Prints the CPU time of the longest step.
use strict;
use warnings;

use Clairon::Test qw(wait_until script_text amount);
use JSON ();
use Test::More;

my $USERS = amount(20_000, 100_000);
my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);
$pg->safe_psql('postgres', "INSERT INTO clairon.member SELECT 'CITY', 'c1', 'u' || i FROM generate_series(1, $USERS) i");
my $id = $pg->safe_psql('postgres', q{SELECT clairon.notify('CITY', '{c1}', '{}', ack_required => true, receipts => 'user', escalate_after => '1 h', ttl => '1 day')});
wait_until('the pairs are stored', sub { $store->execute('HLEN', $store->of($id, "ack:$id")) == $USERS });
$relay->kill9;    # from here on, the test calls the scripts

my ($stream, $receipts) = map { $store->of($id, $_) } qw(stream receipts);
my %longest;
my %sha = map { $_ => $store->execute('SCRIPT', 'LOAD', script_text($_)) } qw(report ack due);
sub cpu { my $sum = 0; $sum += $_ for $store->execute('INFO', 'cpu') =~ /^used_cpu_(?:sys|user):([\d.]+)/mg; return $sum }
sub script { my ($name, @arguments) = @_;
    my $before = cpu();
    my $reply = $store->execute('EVALSHA', $sha{$name}, 1, $stream, $stream =~ s/:stream$//r, @arguments);
    my $used = cpu() - $before;
    $longest{$name} = $used if $used > ($longest{$name} // 0);
    return $reply }
my $steps = 0;
sub due { for (my $more = 1; $more; $more = script('due', 3_600_000, 3_600_000, 100, 1000)->[4]) { $steps++ } return }

my @delivered = map { "u$_" } 1 .. $USERS / 2;
my @acked     = map { "u$_" } 1 .. $USERS / 4;
while (my @users = splice @{ [@delivered] }, 0, 500) { script('report', 3_600_000, 100, 1000, 3_600_000, map { ('S', $_, $id) } @users); splice @delivered, 0, 500 }
while (my @users = splice @{ [@acked] }, 0, 500) { script('ack', 'relay', 3_600_000, scalar @users, (map { ($_, 1) } @users), map { $id } @users); splice @acked, 0, 500 }
is(scalar(map { $_ } $store->entries($receipts)), $USERS / 4, 'each ack has a receipt');
cmp_ok($store->execute('XLEN', $receipts), '<=', $USERS / 4 / 32 + $USERS / 4 / 500, 'in few entries');
$store->execute('ZADD', $store->of($id, 'escalations'), 1, "1$id:");
$store->execute('ZADD', $store->of($id, 'due'), 1, "$id:"); # after an outage, both are due
due();

my (%outcomes, %seen, @whole);
for my $receipt (map { JSON::decode_json($_->{data}) } $store->entries($receipts))
{
    $seen{ $receipt->{id} }++;
    $outcomes{ $receipt->{outcome} }++ if $receipt->{user_id} ne '';
    push @whole, $receipt if $receipt->{user_id} eq '';
}
is_deeply(\%outcomes, { acked => $USERS / 4, expired => $USERS / 4, unreached => $USERS / 2, escalated => $USERS * 3 / 4 }, 'each pair has its outcome');
is(scalar(grep { $_ > 1 } values %seen), 0, 'and only once');
is_deeply([ map { [ @$_{qw(outcome acked recipients)} ] } @whole ], [ [ 'expired', $USERS / 4, $USERS ] ], 'the notification ends once, with the counts of its users');
is($store->execute('EXISTS', map { $store->of($id, $_) } 'escalations', "ack:$id"), 0, 'the pairs have no state');
cmp_ok($steps, '>', $USERS / 1000, 'a step ends a limited number of pairs');
note sprintf("longest call of %s: %.0f ms of CPU", $_, 1000 * $longest{$_}) for sort keys %longest;

done_testing();
