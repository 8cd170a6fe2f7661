# Tests that a redrive skips users who have acknowledged since the error was logged.
use strict;
use warnings;

use Clairon::Test qw(wait_until of_mark);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);

my ($one, $two) = map { $relay->client($_) } qw(u1 u2);
my $id = $pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u1,u2}', '{"mark": "note"}', ack_required => true)});
$one->run_until('the notification arrives', sub { of_mark($one, 'note') });
$two->run_until('the notification arrives', sub { of_mark($two, 'note') });
$one->ack($id);
wait_until('one user has acknowledged', sub { ($store->execute('HGET', $store->of($id, "ack:$id"), 'u1') // '0') ne '0' });

# An older error log entry that lists both users.
my ($entry) = map { { @{ $_->[1] } } } @{ $store->execute_bytes('XRANGE', ($store->keys('stream'))[0], '-', '+') };
$store->execute_bytes('XADD', $store->shared('errors'), '*', id => $id, reason => 'exhausted', attempts => 0, users => '["u1","u2"]', data => $entry->{data}, route => $entry->{route});
my ($code, $out) = $relay->run('errors', 'redrive', $id);
is_deeply([ $code, $out ], [ 0, "redrove 1 entry for 1 user\n" ],
    'redrive counts only the user who has not acknowledged');
$two->run_until('a retry arrives', sub { of_mark($two, 'note') == 2 });
$two->ack($id);
wait_until('all users have acknowledged', sub { !$store->execute('HEXISTS', $store->of($id, 'pending'), $id) });
my $last = $pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u1,u2}', '{"mark": "last"}')});
$one->run_until('the last notification arrives', sub { of_mark($one, 'last') });
is(scalar(of_mark($one, 'note')), 1, 'a user who acknowledged does not receive the redriven notification');
is($store->error_count, 0, 'the redriven error log entry is deleted');

is($relay->metric('clairon_store_errors_total'), 0, 'the store returns no errors');

done_testing();
