# Tests that a connected session still receives its pending notifications after the store loses its last writes or all
# data.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed of_mark);
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store(fsync => 'always');
my $relay = Clairon::Test::relay($pg, $store, conf => { 'gate.ping' => '1h',
    'delivery.ack_timeout' => '300ms', 'delivery.backoff_base' => '50ms', 'delivery.backoff_cap' => '200ms' });

sub notify { my ($audience, $targets, $mark) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('$audience', '{$targets}', '{\"mark\": \"$mark\"}',"
        . ' ack_required => true, retry_limit => 1000)') }

# After the simulated power failure, the notifications are stored, but the delivery reports are lost.
my $early = $relay->client('u3');
my $pos   = $early->pos;
$early->close;
my $acked = notify('USER', 'u1', 'acked');
my $pending = notify('USER', 'u2', 'pending');
my $open = notify('ALL', '', 'open');
wait_until('all notifications are stored', sub { $store->entries == 3 });
my $folder = $store->{folder};
$store->stop;
system('cp', '-a', $folder, "$folder.old") == 0 or die 'could not copy the store';
$store->start;
$relay->wait_ready;

my ($one, $two) = map { $relay->client($_) } qw(u1 u2);
my $three = $relay->client('u3', pos => $pos);
$one->run_until('the notification arrives', sub { of_mark($one, 'acked') });
$one->ack($acked);
wait_until('the notification is complete', sub { $store->pending == 2 });
$two->run_until('the notification arrives', sub { of_mark($two, 'pending') });
$three->run_until('the notification for ALL arrives', sub { of_mark($three, 'open') });
wait_until('both notifications are due', sub {
    2 == map { my $id = $_; grep { defined } map { $store->execute('ZSCORE', $store->of($id, 'due'), "$id:$_") } qw(u2 u3) } $pending, $open });

$store->kill9;
# Reads the retries from before the failure.
for my $client ($one, $two, $three)
{
    $client->send({ t => 'ping' });
    $client->wait_for('pong');
}
system("rm -rf $folder/* && cp -a $folder.old/. $folder/") == 0 or die 'could not restore the store';
$store->start;
$relay->wait_ready;
my ($one_before, $two_before, $three_before) = (scalar of_mark($one, 'acked'), scalar of_mark($two, 'pending'), scalar of_mark($three, 'open'));
$one->run_until('the notification arrives again', sub { of_mark($one, 'acked') > $one_before });
pass('a notification whose ack was lost is delivered again');
$one->ack($acked);
$two->run_until('a retry arrives', sub { of_mark($two, 'pending') > $two_before });
pass('a retry is due although the delivery report was lost');
$two->ack($pending);
$three->run_until('a retry arrives', sub { of_mark($three, 'open') > $three_before });
pass('a retry for an open-ended audience is due although the delivery report was lost');
$three->ack($open);
wait_until('all notifications are acknowledged', sub { $store->pending == 1 && $store->execute('HLEN', $store->of($open, "ack:$open")) == 1 });
$_->close for $one, $two, $three;

# Notifications lost with the store do not occupy the in-flight window.
my $narrow = $relay->client('n1', win => 1);
notify('USER', 'n1', 'before');
$narrow->run_until('the notification arrives', sub { of_mark($narrow, 'before') });
wait_confirmed($pg);    # otherwise the slot sends it again
$store->execute('FLUSHALL');
is($narrow->wait_for('gap')->{why}, 'epoch', 'an emptied store causes a gap');
my $after = notify('USER', 'n1', 'after');
$narrow->run_until('the next notification arrives', sub { of_mark($narrow, 'after') });
pass('the in-flight window is empty after the gap');
$narrow->ack($after);
wait_until('the notification is complete', sub { $store->pending == 0 });

done_testing();
