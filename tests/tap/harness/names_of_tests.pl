# Tests that a name in TESTS that is not a test file is reported, with similar names, before anything runs.
use strict;
use warnings;

use Clairon::Test qw(top);
use IPC::Run ();
use Test::More;

sub check
{
    my ($layer, $name) = @_;
    local $ENV{TESTS} = $name;
    my ($out, $errors) = ('', '');
    IPC::Run::run([ top() . '/tests/check.sh', $layer ], '<', \undef, '>', \$out, '2>', \$errors);
    return ($? >> 8, $out, $errors);
}

for ([ tap => 'tests/tap/http/publishes.pl' ], [ unit => 'tests/unit/base/test_nothing.c' ], [ tap => 'tests/check.sh' ])
{
    my ($layer, $name) = @$_;
    my ($status, $out, $errors) = check($layer, $name);
    is($status, 1, "$name fails");
    is($out, '', "$name runs nothing");
    like($errors, qr/^check\.sh: TESTS: "\Q$name\E" is not a test file/, "$name is reported");
}
my ($status, $out, $errors) = check(tap => 'publish');
like($errors, qr{; did you mean .*tests/tap/http/publish\.pl}, 'similar files are listed');

done_testing();
