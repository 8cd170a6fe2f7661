# Tests a relay that loses its store reader while a slow client catches up: fetched notifications are filtered by the
# memberships at fetch time.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $OLD = 600;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $feed  = Clairon::Test::relay($pg, $store, roles => 'feed');
my $gate  = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.slow_age' => '10m', 'gate.ping' => '1h' });

sub notify { my ($audience, $target, $mark, $count) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('$audience', '{$target}', jsonb_build_object('mark', '$mark', 'more', repeat('x', 20000)))"
        . ' FROM generate_series(1, ' . ($count // 1) . ')') }
sub has { my ($mark) = @_; return scalar grep { $_->{payload}{mark} eq $mark } $_[1]->notifications }
sub clients { return split /\n/, $store->execute('CLIENT', 'LIST') }
sub readers { return grep { /cmd=xread/ } clients() }

$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'leaves'), ('TEAM', 't1', 'other')});
wait_until('the leaving user is a member', sub { $store->execute('SISMEMBER', $store->shared('members:TEAM:t1'), 'leaves') });
my %client = map { $_ => $gate->client($_) } qw(leaves joins);
my %pos    = map { $_ => $client{$_}->pos } keys %client;
$_->close for values %client;

# More bytes than a slow client's sockets can buffer.
notify(USER => 'leaves,joins', 'old', $OLD);
wait_until('the notifications are stored', sub { $store->stored == $OLD });
$gate->restart; # the replay buffer is then empty
%client = map { $_ => $gate->client($_, pos => $pos{$_}) } keys %pos;
wait_until('the relay reads the store', sub { readers() == 1 });
my ($reader) = (readers())[0] =~ /\bid=(\d+)/;
my $most = $store->execute('CONFIG', 'GET', 'maxclients')->[1];
my $mark = $gate->log_mark;
$store->execute('CONFIG', 'SET', 'maxclients', 1);
$store->execute('CLIENT', 'KILL', 'ID', $reader);
$gate->wait_for_log(qr/store connection failed/, from => $mark);
is(($gate->get('/readyz'))[0], 503, 'a relay that cannot read the store is not ready');
like(($gate->get('/readyz'))[1], qr/"store":"down"/, '/readyz returns the reason');
is($gate->metric('clairon_store_connected'), 0, 'the metric clairon_store_connected is 0');

$pg->safe_psql('postgres', q{
    DELETE FROM clairon.member WHERE user_id = 'leaves';
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'joins')});
notify(TEAM => 't1', 'secret');
wait_until('the notification is stored', sub { $store->stored == $OLD + 1 });
$_->run_until('missed notifications arrive', sub { has('old', $client{leaves}) == $OLD && has('old', $client{joins}) == $OLD }) for values %client;
$store->execute('CONFIG', 'SET', 'maxclients', $most);
notify(USER => 'leaves,joins', 'last');
$_->run_until('the last notification arrives', sub { has('last', $client{leaves}) && has('last', $client{joins}) }) for values %client;
is(has('secret', $client{joins}), 1, 'a user who joined before the notification receives it');
is(has('secret', $client{leaves}), 0, 'a user who left before the notification does not receive it');
is($_->gaps, '', 'no client receives a gap') for values %client;
is(($gate->get('/readyz'))[0], 200, 'the relay is ready again');
is($gate->metric('clairon_store_connected'), 1, 'the metric clairon_store_connected is 1 again');

done_testing();
