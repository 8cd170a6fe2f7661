# Tests a device with a small in-flight window, far behind in the stream, while another device of its user acknowledges
# all rows. It resumes, because nothing is lost, and reads the stream with few pages: acknowledged rows need no slot.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use Test::More;

use constant { ROWS => 3000, FOREIGN => 20_000, WINDOW => 2, PAGE => 256 };

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    CREATE TABLE team (id int PRIMARY KEY);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true);
    SELECT clairon.watch('team', 'TEAM', '=t', ack_required => true);
    INSERT INTO clairon.member VALUES ('TEAM', 't', 'u1')});
my $store = Clairon::Test::store();
my %conf  = (conf => { 'delivery.ack_timeout' => '1h' });
my $relay = Clairon::Test::relay($pg, $store, %conf);
wait_until('the user is a member', sub { $store->execute('SISMEMBER', $store->shared('members:TEAM:t'), 'u1') });

sub rows { my ($client) = @_; return map { $_->{payload}{after}{id} } $client->notifications }

# Of each ten rows, one is for the team. The phone acknowledges all of them, the desktop none.
sub insert
{
    my ($from, $to) = @_;
    return $pg->safe_psql('postgres', qq{
        INSERT INTO t SELECT i, 'u1' FROM generate_series($from, $to) i WHERE i % 10 > 0;
        INSERT INTO team SELECT i FROM generate_series($from, $to) i WHERE i % 10 = 0});
}

my $phone   = $relay->client('u1');
my $desktop = $relay->client('u1', win => WINDOW);
my $from    = $desktop->pos;
insert(1, ROWS);
my $acked = 0;
wait_until('the phone has acknowledged all rows', sub {
    my @notifications = $phone->notifications;
    $phone->ack(map { $_->{metadata}{id} } @notifications[ $acked .. $#notifications ]) if $acked < @notifications;
    $acked = @notifications;
    my $ticks = 0;
    $phone->run_until('one loop iteration has passed', sub { $ticks++ > 0 });
    return $acked == ROWS && $store->pending == 0;
});
$_->close for $phone, $desktop;
# They drive the rows out of the replay buffer.
$pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{nobody}', '{}') FROM generate_series(1, } . FOREIGN . ')');
wait_until('all notifications are stored', sub { $store->stored == ROWS + FOREIGN });
wait_until('the relay has read them', sub { $relay->metric('clairon_hub_notifications_total') >= ROWS + FOREIGN });

# The deferral of this cursor begins before all rows, and is read from the stream.
my $pages = $relay->metric('clairon_resume_pages_total') // 0;
my $first = $relay->client('u1', win => WINDOW, pos => $from);
is($first->wait_for('connected')->{resumed}, JSON::true, 'a device that is far behind resumes');
$first->run_until('the first row arrives', sub { rows($first) > 0 });
my $behind = $first->pos;
$first->close;

my $last = $relay->client('u1', win => WINDOW, pos => $behind);
is($last->wait_for('connected')->{resumed}, JSON::true, 'it resumes again');
my %before = map { $_ => 1 } rows($first);
$last->run_until('the device has received all rows', sub { ROWS == keys %{ { %before, map { $_ => 1 } rows($last) } } });
my %seen;
is(join(' ', grep { $seen{$_}++ } rows($last)), '', 'no row is received twice on a connection');
# The rows of each table are one transaction.
is_deeply([ rows($last) ], [ sort { !($a % 10) <=> !($b % 10) || $a <=> $b } rows($last) ], 'rows are received in commit order');
is($last->gaps, '', 'there is no gap');
my %acked;
$last->run_until('acked follows each row', sub {
    %acked = map { $_ => 1 } map { @{ $_->{ids} } } grep { $_->{t} eq 'acked' } @{ $last->{messages} };
    return !grep { !$acked{ $_->{metadata}{id} } } $last->notifications;
});
# Two checks of the whole stream, two deliveries of it, and one more page for each part of the rows.
my $all = (ROWS + FOREIGN) / PAGE;
my $read = $relay->metric('clairon_resume_pages_total') - $pages;
note("$read pages, " . $relay->metric('clairon_resume_waits_total') . ' waits');
cmp_ok($read, '<', 4 * $all + ROWS / PAGE + 32, 'the stream is read in whole pages');
is($relay->metric('clairon_store_errors_total'), 0, 'the store returns no errors');

done_testing();
