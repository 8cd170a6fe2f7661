# A relay that stands still while others ack and memberships change: does it notice what it can read no more of that?
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

# More than the store keeps for relays to read; and what the answer holds that they waited for.
use constant { RECEIPTS => 600, MEMBERS => 12_000, FIRST => 200 };

my $pg     = Clairon::Test::postgresql('main');
my $store  = Clairon::Test::store();
my $first  = Clairon::Test::relay($pg, $store);
my $second = Clairon::Test::relay(undef, $store, roles => 'gate');

sub notify { my ($audience, $target, $more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('$audience', '{$target}', '{}'" . ($more // '') . ')') }
sub has { my ($client, $id) = @_; return scalar grep { $_->{metadata}{id} eq $id } $client->notifications }
sub is_member { my ($user) = @_; return $store->execute('SISMEMBER', 'clairon:members:TEAM:t1', $user) }

# Does nothing while something happens that it should hear of.
sub asleep
{
    my ($relay, $what) = @_;
    my $mark = $relay->log_mark;
    kill STOP => $relay->pid;
    $what->();
    kill CONT => $relay->pid;
    return $mark;
}
sub wait_noticed { my ($relay, $mark) = @_;
    return $relay->wait_for_log(qr/having read it late: asking for all anew/, from => $mark) }

# Acks: those of another connection of this user, on another relay, make room in a window.
my $here  = $first->client('u1');
my $there = $second->client('u1', win => 2);
my @ids   = map { notify('USER', 'u1', ', ack_required => true') } 1 .. 2;
$_->run_until('both', sub { has($here, $ids[1]) && has($there, $ids[1]) }) for $here, $there;
my $third = notify('USER', 'u1', ', ack_required => true');
$here->run_until('a third', sub { has($here, $third) });
sub add_receipts { $store->execute('XADD', 'clairon:receipts', 'MAXLEN', '~', 256, '*', 'by', 'a busy relay', 'acked', '') for 1 .. $_[0]; return }
my $mark = asleep($second, sub {
    add_receipts(FIRST);
    $here->ack(@ids);
    wait_until('they are done', sub { $store->pending == 1 });
    add_receipts(RECEIPTS);
});
wait_noticed($second, $mark);
$there->run_until('the third', sub { has($there, $third) });
pass('acks that were not heard of make room all the same');
$there->ack($third);
wait_until('all is done', sub { $store->pending == 0 });

# Memberships: one that ends, and one that begins, among others, before a message; read one by one, or missed.
sub pupils { my ($class, $count) = @_;
    return "INSERT INTO clairon.member SELECT 'CLASS', '$class', 'pupil' || i FROM generate_series(1, $count) i;" }
for my $others (FIRST, MEMBERS)
{
    $pg->safe_psql('postgres', "INSERT INTO clairon.member VALUES ('TEAM', 't1', 'leaves$others')");
    wait_until('who leaves is a member', sub { is_member("leaves$others") });
    my ($leaves, $joins) = map { $second->client("$_$others") } qw(leaves joins);
    my $before = notify('TEAM', 't1');
    $leaves->run_until('a message of the team', sub { has($leaves, $before) });
    my ($secret, $last);
    $mark = asleep($second, sub {
        $pg->safe_psql('postgres', 'BEGIN;' . pupils("first$others", FIRST) . "
            DELETE FROM clairon.member WHERE user_id = 'leaves$others';
            INSERT INTO clairon.member VALUES ('TEAM', 't1', 'joins$others');" . pupils("then$others", $others) . 'COMMIT');
        $secret = notify('TEAM', 't1');
        $last   = notify('USER', "leaves$others,joins$others");
        wait_until('all is stored', sub { grep { $_->{id} eq $last } $store->entries });
    });
    wait_noticed($second, $mark) if $others == MEMBERS;
    $_->run_until('the last message', sub { has($leaves, $last) && has($joins, $last) }) for $leaves, $joins;
    is(has($joins, $secret), 1, "who joined before $others others did receives");
    is(has($leaves, $secret), 0, 'who left does not');
}
is($_->metric('clairon_store_errors_total'), 0, 'the store never had to refuse') for $first, $second;

done_testing();
